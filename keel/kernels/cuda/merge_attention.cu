#include "keel/kernels/cuda/merge_attention.h"

#include "keel/kernels/cuda/float_types.cuh"

namespace keel::cuda {
namespace {

constexpr int kThreads = 128;

/// A block of threads for each row; N divides the width of a head.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(T* out, float* log_sum, long long all, long long first, const int64_t* rows, const T* more,
                 const float* more_log_sum, long long count, int heads, int width) {
  using Some = Several<T, N>;
  const long long from = blockIdx.x, row = rows ? rows[from] : first + from;
  const auto whole = [](float a, float b) { return fmaxf(a, b) + log1pf(expf(-fabsf(a - b))); };
  for (int i = static_cast<int>(threadIdx.x) * N; i < heads * width; i += kThreads * N) {
    const int head = i / width;
    const float a = log_sum[head * all + row], b = more_log_sum[head * count + from], sum = whole(a, b);
    const float mine = expf(a - sum), theirs = expf(b - sum);
    Some* const place = reinterpret_cast<Some*>(out + row * heads * width + i);
    Some some = *place;
    const Some added = *reinterpret_cast<const Some*>(more + from * heads * width + i);
    for (int j = 0; j < N; ++j)
      some.of[j] = from_float<T>(to_float(some.of[j]) * mine + to_float(added.of[j]) * theirs);
    *place = some;
  }
  __syncthreads();
  for (int head = threadIdx.x; head < heads; head += kThreads) {
    float& sum = log_sum[head * all + row];
    sum = whole(sum, more_log_sum[head * count + from]);
  }
}

}  // namespace

int merge_attention(void* out, float* log_sum, int64_t all, int64_t first, const int64_t* rows, const void* more,
                    const float* more_log_sum, FloatType type, int64_t count, int64_t heads, int64_t width,
                    void* stream) {
  if (count * heads * width == 0) return 0;
  for_type(type, [&]<class T>(T*) {
    const bool several = in_several(out, width, width) && in_several(more, width, width);
    const auto kernel = several ? merge_kernel<T, kSeveral> : merge_kernel<T, 1>;
    kernel<<<static_cast<unsigned int>(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<T*>(out), log_sum, all, first, rows, static_cast<const T*>(more), more_log_sum, count,
        static_cast<int>(heads), static_cast<int>(width));
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
