#pragma once

#include <cstdint>

#include "keel/kernels/row_math.h"

namespace keel::cpu {

/// Samples one token per row of `logits` [rows, vocab] by the Gumbel-max trick: the largest (z - largest) / T + noise.
/// The noise of row i is a function of (seed, rollout_ids[i], positions[i], token) alone. Temperature 0 takes the
/// largest logit, and the first of equal ones.
void sample_tokens(const float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                   double temperature, uint64_t seed, const int64_t* rollout_ids, const int64_t* positions,
                   int64_t* tokens);

/// Adds normal noise of this standard deviation to `logits` [rows, vocab], keyed by (seed, rollout_ids[i],
/// positions[i], token).
void add_logit_noise(float* logits, int64_t rows, int64_t vocab, double deviation, uint64_t seed,
                     const int64_t* rollout_ids, const int64_t* positions);

}  // namespace keel::cpu
