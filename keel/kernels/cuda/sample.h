#pragma once

#include <cstdint>

#include "keel/kernels/row_math.h"

namespace keel::cuda {

/// keel::cpu::draw_tokens on device pointers, on `stream` (a cudaStream_t). Returns a CUDA error code, 0 for none.
int draw_tokens(const float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab, double temperature,
                uint64_t seed, const int64_t* rollout_ids, const int64_t* positions, int64_t* tokens, void* stream);

}  // namespace keel::cuda
