#pragma once

#include <cstdint>

#include "keel/kernels/row_math.h"

// Statistics of the token distributions of logits [rows, vocab]. Rows are independent: a caller may split them over
// threads, and the results do not depend on the split.

namespace keel::cpu {

void normalize_rows(const float* logits, int64_t rows, int64_t vocab, double inverse_temperature,
                    RowNormalizer* normalizers);

/// log p of `count` tokens of each row, and log(1 - p) unless other_logps is null. ids, logps and other_logps are
/// [rows, count].
void token_log_probabilities(const float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                             double inverse_temperature, const int64_t* ids, int64_t count, float* logps,
                             float* other_logps);

/// Exact divergences of each row from the row of another policy mu: total variation and KL(mu || pi), both [rows].
void row_divergences(const float* logits, const RowNormalizer* normalizers, const float* behavior_logits,
                     const RowNormalizer* behavior_normalizers, int64_t rows, int64_t vocab, double inverse_temperature,
                     float* total_variations, float* kls);

/// The sum of m of each row in the exact form of score centering: [rows].
void weighted_masses(const float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                     double inverse_temperature, const ScoreMasses& centering, float* totals);

/// Overwrites the logits with the gradient of the loss.
void logits_to_gradients(float* logits, const RowNormalizer* normalizers, int64_t rows, int64_t vocab,
                         double inverse_temperature, const LogitLoss& loss);

}  // namespace keel::cpu
