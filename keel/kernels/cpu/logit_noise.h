#pragma once

#include <cstdint>

#include "keel/kernels/row_math.h"

namespace keel::cpu {

/// Adds normal noise of this deviation to `logits` [rows, vocab]. That of row i is a function of (seed, rollout_ids[i],
/// positions[i], token) alone.
void add_logit_noise(float* logits, int64_t rows, int64_t vocab, double deviation, uint64_t seed,
                     const int64_t* rollout_ids, const int64_t* positions);

}  // namespace keel::cpu
