#include <cmath>

#include "keel/kernels/cuda/kept_tokens.h"

namespace keel::cuda {
namespace {

constexpr int kKeptThreads = 512;

/// One thread block per row; a warp writes the word of 32 adjacent tokens.
__global__ void __launch_bounds__(kKeptThreads)
    pack_kernel(const float* logits, long long vocab, long long words, uint32_t* bitmaps) {
  const float* const row = logits + blockIdx.x * vocab;
  for (long long begin = 0; begin < 32 * words; begin += kKeptThreads) {
    const long long token = begin + threadIdx.x;
    const uint32_t bits = __ballot_sync(~0u, token < vocab && row[token] > -INFINITY);
    if (threadIdx.x % 32 == 0 && token / 32 < words) bitmaps[blockIdx.x * words + token / 32] = bits;
  }
}

/// One thread block per row.
__global__ void __launch_bounds__(kKeptThreads) exclude_kernel(float* logits, long long vocab, KeptRowPointers kept) {
  __shared__ float values[kMaxKeptIds];
  float* const row = logits + blockIdx.x * vocab;
  const long long size = kept.sizes[blockIdx.x];
  const uint32_t* const words = kept.words + kept.begins[blockIdx.x];
  if (size == vocab) return;
  if (size > kMaxKeptIds) {
    for (long long token = threadIdx.x; token < vocab; token += kKeptThreads)
      if ((words[token / 32] >> token % 32 & 1) == 0) row[token] = -INFINITY;
    return;
  }
  for (long long i = threadIdx.x; i < size; i += kKeptThreads) values[i] = row[words[i]];
  __syncthreads();
  const long long fours = vocab % 4 == 0 ? vocab / 4 : 0;
  for (long long i = threadIdx.x; i < fours; i += kKeptThreads)
    reinterpret_cast<float4*>(row)[i] = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
  for (long long token = 4 * fours + threadIdx.x; token < vocab; token += kKeptThreads) row[token] = -INFINITY;
  __syncthreads();
  for (long long i = threadIdx.x; i < size; i += kKeptThreads) row[words[i]] = values[i];
}

}  // namespace

int pack_kept_tokens(const float* logits, int64_t rows, int64_t vocab, uint32_t* bitmaps, void* stream) {
  if (rows == 0) return 0;
  pack_kernel<<<static_cast<unsigned int>(rows), kKeptThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, vocab, bitmap_words(vocab), bitmaps);
  return static_cast<int>(cudaGetLastError());
}

int exclude_other_tokens(float* logits, int64_t rows, int64_t vocab, const KeptRowPointers& kept, void* stream) {
  if (rows == 0) return 0;
  exclude_kernel<<<static_cast<unsigned int>(rows), kKeptThreads, 0, static_cast<cudaStream_t>(stream)>>>(logits, vocab,
                                                                                                          kept);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
