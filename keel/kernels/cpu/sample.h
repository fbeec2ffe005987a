#pragma once

#include <cstdint>

namespace keel::cpu {

/// Draws one token per row of `logits` [rows, vocab] by the Gumbel-max rule and writes its log-probability under the
/// tempered softmax. The noise of row i is a function of (seed, rollout_ids[i], positions[i], token) alone.
/// Temperature 0 takes the largest logit and reports the untempered log-probability.
void sample_tokens(const float* logits, int64_t rows, int64_t vocab, float temperature, uint64_t seed,
                   const int64_t* rollout_ids, const int64_t* positions, int64_t* tokens, float* logps);

}  // namespace keel::cpu
