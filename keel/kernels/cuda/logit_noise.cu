#include "keel/kernels/cuda/block.cuh"
#include "keel/kernels/cuda/logit_noise.h"

namespace keel::cuda {
namespace {

__global__ void noise_kernel(float* logits, long long vocab, float deviation, unsigned long long seed,
                             const int64_t* rollout_ids, const int64_t* positions) {
  float* row = logits + blockIdx.x * vocab;
  for (long long begin = threadIdx.x * 4; begin < vocab; begin += kThreads * 4) {
    const LogitNoise noise(seed, static_cast<unsigned long long>(rollout_ids[blockIdx.x]),
                           static_cast<unsigned int>(positions[blockIdx.x]), static_cast<unsigned int>(begin / 4));
    for (int i = 0; i < 4 && begin + i < vocab; ++i) row[begin + i] += deviation * noise.of[i];
  }
}

}  // namespace

int add_logit_noise(float* logits, int64_t rows, int64_t vocab, double deviation, uint64_t seed,
                    const int64_t* rollout_ids, const int64_t* positions, void* stream) {
  if (rows == 0) return 0;
  noise_kernel<<<static_cast<unsigned int>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, vocab, static_cast<float>(deviation), seed, rollout_ids, positions);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
