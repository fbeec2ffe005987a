#pragma once

#include <cstdint>

namespace keel::cuda {

/// keel::cpu::sample_tokens on device pointers, on `stream` (a cudaStream_t). Returns a CUDA error code, 0 for none.
int sample_tokens(const float* logits, int64_t rows, int64_t vocab, float temperature, uint64_t seed,
                  const int64_t* rollout_ids, const int64_t* positions, int64_t* tokens, float* logps, void* stream);

}  // namespace keel::cuda
