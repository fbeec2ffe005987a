#pragma once

#include <cstdint>

#include "keel/kernels/row_math.h"

namespace keel::cuda {

/// keel::cpu::add_logit_noise on device pointers, on `stream` (a cudaStream_t). Returns a CUDA error code, 0 for none.
int add_logit_noise(float* logits, int64_t rows, int64_t vocab, double deviation, uint64_t seed,
                    const int64_t* rollout_ids, const int64_t* positions, void* stream);

}  // namespace keel::cuda
