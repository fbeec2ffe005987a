#include "keel/kernels/cuda/float8.h"

#include <cuda_fp8.h>

#include <cfloat>

#include "keel/kernels/cuda/float_types.cuh"
#include "keel/kernels/cuda/launch.cuh"

namespace keel::cuda {
namespace {

constexpr int kRowThreads = 128, kWarps = kRowThreads / 32;
constexpr int kUnscaledWidth = 2 * kRowThreads * kVectorSize;  // elements per thread block without scales

template <Float8 format>
constexpr float kMaxValue = max_of(format);

/// The larger number, or NaN if one is NaN: then all results of the row become NaN.
__device__ float max_or_nan(float a, float b) { return a > b || isnan(a) ? a : b; }

template <Float8 format>
__device__ float round_to_format(float x) {
  constexpr __nv_fp8_interpretation_t kKind = format == Float8::kE4m3 ? __NV_E4M3 : __NV_E5M2;
  return __half2float(__nv_cvt_fp8_to_halfraw(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, kKind), kKind));
}

/// Each thread loads N elements at a time; N divides the width. The last row may end early, after `count` elements in
/// all. Rounds like separate PyTorch operators, so that the result is bitwise equal to the CPU's.
template <class T, int N, Float8 format>
__global__ void __launch_bounds__(kRowThreads)
    float8_kernel(const T* x, long long count, int row_width, bool scaled, T* y) {
  using Vec = Vector<T, N>;
  __shared__ float parts[kWarps];
  allow_next_kernel();
  wait_for_previous_kernel();
  const long long begin = static_cast<long long>(blockIdx.x) * row_width;
  const int width = static_cast<int>(min(static_cast<long long>(row_width), count - begin));
  const auto load = [&](int i) { return *reinterpret_cast<const Vec*>(x + begin + i); };
  const int first = static_cast<int>(threadIdx.x) * N;
  float scale = 1;
  if (scaled) {
    float largest = 0;
    for (int i = first; i < width; i += kRowThreads * N) {
      const Vec values = load(i);
      for (int j = 0; j < N; ++j) largest = max_or_nan(fabsf(to_float(values.of[j])), largest);
    }
    for (int half = 16; half > 0; half /= 2) largest = max_or_nan(__shfl_xor_sync(~0u, largest, half), largest);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int warp = 0; warp < kWarps; ++warp) largest = max_or_nan(parts[warp], largest);
    scale = max_or_nan(__fdiv_rn(largest, kMaxValue<format>), FLT_MIN);
  }
  for (int i = first; i < width; i += kRowThreads * N) {
    Vec values = load(i);
    for (int j = 0; j < N; ++j)
      values.of[j] = from_float<T>(__fmul_rn(round_to_format<format>(__fdiv_rn(to_float(values.of[j]), scale)), scale));
    *reinterpret_cast<Vec*>(y + begin + i) = values;
  }
}

}  // namespace

int round_to_float8(const void* x, FloatType type, Float8 format, bool scaled, int64_t rows, int64_t width, void* y,
                    void* stream) {
  const int64_t count = rows * width;
  if (count == 0) return 0;
  const int row_width = scaled ? static_cast<int>(width) : kUnscaledWidth;
  for_type(type, [&]<class T>(T*) {
    const auto start = [&]<Float8 kFormat>() {
      const bool vectorized = can_vectorize(x, row_width, count) && can_vectorize(y, row_width, count);
      launch(vectorized ? float8_kernel<T, kVectorSize, kFormat> : float8_kernel<T, 1, kFormat>,
             dim3(static_cast<unsigned int>((count + row_width - 1) / row_width)), kRowThreads, 0, stream,
             static_cast<const T*>(x), static_cast<long long>(count), row_width, scaled, static_cast<T*>(y));
    };
    format == Float8::kE4m3 ? start.template operator()<Float8::kE4m3>() : start.template operator()<Float8::kE5m2>();
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
