#include "keel/kernels/cuda/block.cuh"
#include "keel/kernels/cuda/sample.h"

namespace keel::cuda {
namespace {

struct Candidate {
  float value;
  long long token;
};

/// The better of two; the smaller token among equals, so that the result does not depend on the order of the threads.
__device__ Candidate better(Candidate a, Candidate b) {
  return b.value > a.value || (b.value == a.value && b.token < a.token) ? b : a;
}

__global__ void draw_kernel(const float* logits, const RowNormalizer* normalizers, long long vocab, double temperature,
                            unsigned long long seed, const int64_t* rollout_ids, const int64_t* positions,
                            int64_t* tokens) {
  __shared__ Candidate candidates[kThreads];
  const float* row = logits + blockIdx.x * vocab;
  const double largest = normalizers[blockIdx.x].largest;
  const bool greedy = temperature == 0;
  const double inverse_temperature = greedy ? 1 : 1 / temperature;

  Candidate chosen{-INFINITY, 0};
  for (long long begin = threadIdx.x * 4; begin < vocab; begin += kThreads * 4) {
    const PhiloxBlock noise =
        random_block(seed, Stream::kSampling, static_cast<unsigned long long>(rollout_ids[blockIdx.x]),
                     static_cast<unsigned int>(positions[blockIdx.x]), static_cast<unsigned int>(begin / 4));
    for (int i = 0; i < 4 && begin + i < vocab; ++i) {
      const float tempered = static_cast<float>((row[begin + i] - largest) * inverse_temperature);
      chosen = better(chosen, {greedy ? tempered : tempered + gumbel(noise.word[i]), begin + i});
    }
  }
  chosen = reduce(chosen, candidates, better);
  if (threadIdx.x == 0) tokens[blockIdx.x] = chosen.token;
}

}  // namespace

int draw_tokens(const float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab, double temperature,
                uint64_t seed, const int64_t* rollout_ids, const int64_t* positions, int64_t* tokens, void* stream) {
  if (rows == 0) return 0;
  draw_kernel<<<static_cast<unsigned int>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, normalizers, vocab, temperature, seed, rollout_ids, positions, tokens);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
