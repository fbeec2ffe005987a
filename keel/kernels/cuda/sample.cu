#include "keel/kernels/cuda/sample.h"

#include "keel/core/philox.h"

namespace keel::cuda {
namespace {

constexpr int kThreads = 256;

struct Candidate {
  float value;
  long long token;
};

/// The better of two; the smaller token among equals, so that the result does not depend on the order of the threads.
__device__ Candidate better(Candidate a, Candidate b) {
  return b.value > a.value || (b.value == a.value && b.token < a.token) ? b : a;
}

/// Folds `value` over the block by `fold`; every thread gets the result.
template <class T, class Fold>
__device__ T reduce(T value, T* shared, Fold fold) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] = fold(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  const T result = shared[0];
  __syncthreads();
  return result;
}

/// One block per row: largest logit, normaliser, perturbed argmax.
__global__ void sample_kernel(const float* logits, long long vocab, float temperature, unsigned long long seed,
                              const int64_t* rollout_ids, const int64_t* positions, int64_t* tokens, float* logps) {
  __shared__ Candidate candidates[kThreads];
  __shared__ double sums[kThreads];
  const float* row = logits + blockIdx.x * vocab;
  const bool greedy = temperature == 0.0f;
  const float inverse_temperature = greedy ? 1.0f : 1.0f / temperature;

  Candidate largest{-INFINITY, 0}, chosen{-INFINITY, 0};
  for (long long begin = threadIdx.x * 4; begin < vocab; begin += kThreads * 4) {
    const PhiloxBlock noise =
        random_block(seed, Stream::kSampling, static_cast<unsigned long long>(rollout_ids[blockIdx.x]),
                     static_cast<unsigned int>(positions[blockIdx.x]), static_cast<unsigned int>(begin / 4));
    for (int i = 0; i < 4 && begin + i < vocab; ++i) {
      const float logit = row[begin + i];
      largest = better(largest, {logit, begin + i});
      const float gumbel = -logf(-logf(uniform(noise.word[i])));
      chosen = better(chosen, {logit * inverse_temperature + gumbel, begin + i});
    }
  }
  largest = reduce(largest, candidates, better);
  chosen = greedy ? largest : reduce(chosen, candidates, better);

  double sum = 0;
  for (long long token = threadIdx.x; token < vocab; token += kThreads)
    sum += expf((row[token] - largest.value) * inverse_temperature);
  sum = reduce(sum, sums, [](double a, double b) { return a + b; });

  if (threadIdx.x == 0) {
    const double logp = (row[chosen.token] - largest.value) * inverse_temperature - log(sum);
    tokens[blockIdx.x] = chosen.token;
    logps[blockIdx.x] = static_cast<float>(logp < 0 ? logp : 0);
  }
}

}  // namespace

int sample_tokens(const float* logits, int64_t rows, int64_t vocab, float temperature, uint64_t seed,
                  const int64_t* rollout_ids, const int64_t* positions, int64_t* tokens, float* logps, void* stream) {
  if (rows == 0) return 0;
  sample_kernel<<<static_cast<unsigned int>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, vocab, temperature, seed, rollout_ids, positions, tokens, logps);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
