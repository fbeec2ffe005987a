#include "keel/kernels/cuda/layers.h"

#include <algorithm>

#include "keel/kernels/cuda/float_types.cuh"
#include "keel/kernels/cuda/launch.cuh"

namespace keel::cuda {
namespace {

constexpr int kRowThreads = 128, kWarps = kRowThreads / 32, kFlatThreads = 256;
constexpr int kKept = 2;  // loads that a thread keeps in registers; the rest of wider rows is read twice
constexpr int64_t kMaxParts = 1056;

/// A thread block processes every gridDim.x-th row and sums the weight gradients of its rows.
template <class T, int N>
__global__ void __launch_bounds__(kRowThreads)
    rms_norm_gradient_kernel(const T* x, const T* weight, const T* dy, const T* dsum, long long rows, int width,
                             float eps, T* dx, float* dweight) {
  using Vec = Vector<T, N>;
  extern __shared__ float weight_sums[];  // column i + j is at j * (width / N) + i / N
  __shared__ float2 sums[2][kWarps];
  const auto load = [](const T* from) { return *reinterpret_cast<const Vec*>(from); };
  const int first = static_cast<int>(threadIdx.x) * N, columns = width / N;
  constexpr int kStep = kRowThreads * N;
  for (int i = first; dweight && i < width; i += kStep)
    for (int j = 0; j < N; ++j) weight_sums[j * columns + i / N] = 0;
  int buffer = 0;
  for (long long row = blockIdx.x; row < rows; row += gridDim.x, buffer ^= 1) {
    const long long begin = row * width;
    Vec kept_x[kKept], kept_dy[kKept];
    float2 sum = {0, 0};  // of x^2, and of dy weight x
    const auto add = [&](const Vec& x_values, const Vec& dy_values, const Vec& factor) {
      for (int j = 0; j < N; ++j) {
        const float value = to_float(x_values.of[j]);
        sum.x += value * value;
        sum.y += to_float(dy_values.of[j]) * to_float(factor.of[j]) * value;
      }
    };
#pragma unroll
    for (int pass = 0; pass < kKept; ++pass)
      if (const int i = first + pass * kStep; i < width) {
        kept_x[pass] = load(x + begin + i), kept_dy[pass] = load(dy + begin + i);
        add(kept_x[pass], kept_dy[pass], load(weight + i));
      }
    for (int i = first + kKept * kStep; i < width; i += kStep)
      add(load(x + begin + i), load(dy + begin + i), load(weight + i));
    for (int half = 16; half > 0; half /= 2) {
      sum.x += __shfl_xor_sync(~0u, sum.x, half);
      sum.y += __shfl_xor_sync(~0u, sum.y, half);
    }
    if (threadIdx.x % 32 == 0) sums[buffer][threadIdx.x / 32] = sum;
    __syncthreads();
    float squares = 0, products = 0;
    for (int warp = 0; warp < kWarps; ++warp) squares += sums[buffer][warp].x, products += sums[buffer][warp].y;
    const float scale = 1.0f / sqrtf(squares / static_cast<float>(width) + eps);
    const float projection = products * scale * scale / static_cast<float>(width);
    const auto write = [&](int i, const Vec& x_values, const Vec& dy_values, const Vec& factor) {
      Vec result, other;
      if (dsum) other = load(dsum + begin + i);
      for (int j = 0; j < N; ++j) {
        const float value = to_float(x_values.of[j]), gradient = to_float(dy_values.of[j]);
        const float own = scale * (gradient * to_float(factor.of[j]) - value * projection);
        result.of[j] = from_float<T>(dsum ? own + to_float(other.of[j]) : own);
        if (dweight) weight_sums[j * columns + i / N] += gradient * rounded<T>(value * scale);
      }
      *reinterpret_cast<Vec*>(dx + begin + i) = result;
    };
#pragma unroll
    for (int pass = 0; pass < kKept; ++pass)
      if (const int i = first + pass * kStep; i < width) write(i, kept_x[pass], kept_dy[pass], load(weight + i));
    for (int i = first + kKept * kStep; i < width; i += kStep)
      write(i, load(x + begin + i), load(dy + begin + i), load(weight + i));
  }
  if (!dweight) return;
  float* const to = dweight + static_cast<long long>(blockIdx.x) * width;
  for (int i = first; i < width; i += kStep)
    for (int j = 0; j < N; ++j) to[i + j] = weight_sums[j * columns + i / N];
}

template <class T, int N>
__global__ void swiglu_gradient_kernel(const T* gate, long long gate_stride, const T* up, long long up_stride,
                                       const T* dy, int width, T* dgate, T* dup) {
  using Vec = Vector<T, N>;
  const long long row = blockIdx.x;
  const int i = (static_cast<int>(blockIdx.y) * kFlatThreads + static_cast<int>(threadIdx.x)) * N;
  if (i >= width) return;
  Vec g = *reinterpret_cast<const Vec*>(gate + row * gate_stride + i);
  Vec u = *reinterpret_cast<const Vec*>(up + row * up_stride + i);
  const Vec d = *reinterpret_cast<const Vec*>(dy + row * width + i);
  for (int j = 0; j < N; ++j) {
    const float x = to_float(g.of[j]), gradient = to_float(d.of[j]), sigmoid = 1.0f / (1.0f + expf(-x));
    g.of[j] = from_float<T>(gradient * to_float(u.of[j]) * sigmoid * (1.0f + x * (1.0f - sigmoid)));
    u.of[j] = from_float<T>(gradient * rounded<T>(x * sigmoid));
  }
  *reinterpret_cast<Vec*>(dgate + row * width + i) = g;
  *reinterpret_cast<Vec*>(dup + row * width + i) = u;
}

template <class T>
const T* in(const void* x) {
  return static_cast<const T*>(x);
}

}  // namespace

int64_t norm_gradient_parts(int64_t rows) { return std::min(rows, kMaxParts); }

int rms_norm_gradients(const void* x, const void* weight, const void* dy, const void* dsum, FloatType type,
                       int64_t rows, int64_t width, float eps, void* dx, float* dweight, void* stream) {
  if (rows * width == 0) return 0;
  for_type(type, [&]<class T>(T*) {
    const auto aligned = [&](const void* begin) { return can_vectorize(begin, width, width); };
    const bool vectorized = aligned(x) && aligned(weight) && aligned(dy) && aligned(dsum) && aligned(dx);
    const auto kernel = vectorized ? rms_norm_gradient_kernel<T, kVectorSize> : rms_norm_gradient_kernel<T, 1>;
    const size_t bytes = dweight ? static_cast<size_t>(width) * sizeof(float) : 0;
    allow_shared_bytes(kernel, bytes);
    kernel<<<static_cast<unsigned int>(norm_gradient_parts(rows)), kRowThreads, bytes,
             static_cast<cudaStream_t>(stream)>>>(in<T>(x), in<T>(weight), in<T>(dy), in<T>(dsum), rows,
                                                  static_cast<int>(width), eps, static_cast<T*>(dx), dweight);
  });
  return static_cast<int>(cudaGetLastError());
}

int swiglu_gradients(const void* gate, int64_t gate_stride, const void* up, int64_t up_stride, const void* dy,
                     FloatType type, int64_t rows, int64_t width, void* dgate, void* dup, void* stream) {
  if (rows * width == 0) return 0;
  for_type(type, [&]<class T>(T*) {
    const bool vectorized = can_vectorize(gate, gate_stride, width) && can_vectorize(up, up_stride, width) &&
                            can_vectorize(dy, width, width) && can_vectorize(dgate, width, width) &&
                            can_vectorize(dup, width, width);
    const auto kernel = vectorized ? swiglu_gradient_kernel<T, kVectorSize> : swiglu_gradient_kernel<T, 1>;
    const int64_t threads = width / (vectorized ? kVectorSize : 1);
    const dim3 grid(static_cast<unsigned int>(rows),
                    static_cast<unsigned int>((threads + kFlatThreads - 1) / kFlatThreads));
    kernel<<<grid, kFlatThreads, 0, static_cast<cudaStream_t>(stream)>>>(in<T>(gate), gate_stride, in<T>(up), up_stride,
                                                                         in<T>(dy), static_cast<int>(width),
                                                                         static_cast<T*>(dgate), static_cast<T*>(dup));
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
