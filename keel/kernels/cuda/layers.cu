#include "keel/kernels/cuda/float_types.cuh"
#include "keel/kernels/cuda/layers.h"

namespace keel::cuda {
namespace {

constexpr int kRowThreads = 128, kWarps = kRowThreads / 32, kFlatThreads = 256;

/// As the tensor library's operators one after the other round, and the trainer with them.
template <class T>
__device__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

template <class T>
__global__ void rms_norm_kernel(const T* x, const T* weight, int width, float eps, T* y) {
  __shared__ float sums[kWarps];
  x += static_cast<long long>(blockIdx.x) * width;
  y += static_cast<long long>(blockIdx.x) * width;
  float squares = 0;
  for (int i = threadIdx.x; i < width; i += kRowThreads) squares += to_float(x[i]) * to_float(x[i]);
  for (int half = 16; half > 0; half /= 2) squares += __shfl_xor_sync(~0u, squares, half);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = squares;
  __syncthreads();
  float total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += sums[warp];
  const float scale = 1.0f / sqrtf(total / static_cast<float>(width) + eps);
  for (int i = threadIdx.x; i < width; i += kRowThreads)
    y[i] = from_float<T>(rounded<T>(to_float(x[i]) * scale) * to_float(weight[i]));
}

template <class T>
__global__ void swiglu_kernel(const T* gate, const T* up, long long count, T* y) {
  const long long i = static_cast<long long>(blockIdx.x) * kFlatThreads + threadIdx.x;
  if (i >= count) return;
  const float g = to_float(gate[i]);
  y[i] = from_float<T>(rounded<T>(g / (1.0f + expf(-g))) * to_float(up[i]));
}

template <class T>
__global__ void rotate_kernel(const T* x, const float* cos, const float* sin, int heads, int half, T* y) {
  const long long row = blockIdx.x, begin = row * heads * half * 2;
  for (int i = threadIdx.x; i < heads * half; i += kRowThreads) {
    const int head = i / half, d = i % half;
    const long long first = begin + static_cast<long long>(head) * half * 2 + d, second = first + half;
    const float c = cos[row * half + d], s = sin[row * half + d], a = to_float(x[first]), b = to_float(x[second]);
    y[first] = from_float<T>(a * c - b * s);
    y[second] = from_float<T>(b * c + a * s);
  }
}

template <class T>
const T* in(const void* x) {
  return static_cast<const T*>(x);
}

}  // namespace

int rms_norm_rows(const void* x, const void* weight, FloatType type, int64_t rows, int64_t width, float eps, void* y,
                  void* stream) {
  if (rows == 0) return 0;
  for_type(type, [&]<class T>(T*) {
    rms_norm_kernel<<<static_cast<unsigned int>(rows), kRowThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        in<T>(x), in<T>(weight), static_cast<int>(width), eps, static_cast<T*>(y));
  });
  return static_cast<int>(cudaGetLastError());
}

int swiglu(const void* gate, const void* up, FloatType type, int64_t count, void* y, void* stream) {
  if (count == 0) return 0;
  const auto blocks = static_cast<unsigned int>((count + kFlatThreads - 1) / kFlatThreads);
  for_type(type, [&]<class T>(T*) {
    swiglu_kernel<<<blocks, kFlatThreads, 0, static_cast<cudaStream_t>(stream)>>>(in<T>(gate), in<T>(up), count,
                                                                                  static_cast<T*>(y));
  });
  return static_cast<int>(cudaGetLastError());
}

int rotate_heads(const void* x, const float* cos, const float* sin, FloatType type, int64_t rows, int64_t heads,
                 int64_t width, void* y, void* stream) {
  if (rows == 0) return 0;
  for_type(type, [&]<class T>(T*) {
    rotate_kernel<<<static_cast<unsigned int>(rows), kRowThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        in<T>(x), cos, sin, static_cast<int>(heads), static_cast<int>(width / 2), static_cast<T*>(y));
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
