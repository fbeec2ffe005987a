#include "keel/kernels/cuda/merge_attention.h"

#include "keel/kernels/cuda/float_types.cuh"

namespace keel::cuda {
namespace {

constexpr int kThreads = 128;

/// One thread block per row; N divides the width of a head.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(T* out, float* log_sum, long long total, long long first, const int64_t* rows, const T* added_out,
                 const float* added_log_sum, long long count, int heads, int width) {
  using Vec = Vector<T, N>;
  const long long from = blockIdx.x, row = rows ? rows[from] : first + from;
  const auto log_add_exp = [](float a, float b) { return fmaxf(a, b) + log1pf(expf(-fabsf(a - b))); };
  for (int i = static_cast<int>(threadIdx.x) * N; i < heads * width; i += kThreads * N) {
    const int head = i / width;
    const float a = log_sum[head * total + row], b = added_log_sum[head * count + from], sum = log_add_exp(a, b);
    const float weight = expf(a - sum), other_weight = expf(b - sum);
    Vec* const target = reinterpret_cast<Vec*>(out + row * heads * width + i);
    Vec value = *target;
    const Vec other = *reinterpret_cast<const Vec*>(added_out + from * heads * width + i);
    for (int j = 0; j < N; ++j)
      value.of[j] = from_float<T>(to_float(value.of[j]) * weight + to_float(other.of[j]) * other_weight);
    *target = value;
  }
  __syncthreads();
  for (int head = threadIdx.x; head < heads; head += kThreads) {
    float& sum = log_sum[head * total + row];
    sum = log_add_exp(sum, added_log_sum[head * count + from]);
  }
}

}  // namespace

int merge_attention(void* out, float* log_sum, int64_t total, int64_t first, const int64_t* rows, const void* added,
                    const float* added_log_sum, FloatType type, int64_t count, int64_t heads, int64_t width,
                    void* stream) {
  if (count * heads * width == 0) return 0;
  for_type(type, [&]<class T>(T*) {
    const bool vectorized = can_vectorize(out, width, width) && can_vectorize(added, width, width);
    const auto kernel = vectorized ? merge_kernel<T, kVectorSize> : merge_kernel<T, 1>;
    kernel<<<static_cast<unsigned int>(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<T*>(out), log_sum, total, first, rows, static_cast<const T*>(added), added_log_sum, count,
        static_cast<int>(heads), static_cast<int>(width));
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
