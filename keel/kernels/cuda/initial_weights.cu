#include "keel/kernels/cuda/initial_weights.h"

#include <algorithm>

#include "keel/kernels/initial_weights.h"

namespace keel::cuda {
namespace {

constexpr int kPairThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 16;

__global__ void initial_weights_kernel(float* weights, long long count, double deviation, unsigned long long seed,
                                       unsigned long long parameter) {
  const long long step = static_cast<long long>(gridDim.x) * kPairThreads;
  for (long long pair = static_cast<long long>(blockIdx.x) * kPairThreads + threadIdx.x; 2 * pair < count;
       pair += step) {
    const InitialWeights two(deviation, seed, parameter, static_cast<unsigned long long>(pair));
    weights[2 * pair] = two.of[0];
    if (2 * pair + 1 < count) weights[2 * pair + 1] = two.of[1];
  }
}

}  // namespace

int initial_weights(float* weights, int64_t count, double deviation, uint64_t seed, uint64_t parameter, void* stream) {
  if (count == 0) return 0;
  const int64_t blocks = ((count + 1) / 2 + kPairThreads - 1) / kPairThreads;
  initial_weights_kernel<<<static_cast<unsigned int>(std::min(blocks, kMaxBlocks)), kPairThreads, 0,
                           static_cast<cudaStream_t>(stream)>>>(weights, count, deviation, seed, parameter);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
