#pragma once

#include <cstdint>

namespace keel::cpu {

/// Copies the logits [rows, vocab] and sets those of tokens outside the nucleus to -inf: outside are tokens whose more
/// likely tokens (of equally likely ones the lower ids) have at least the probability `top_p` at this temperature.
/// Sorts only tokens that can be inside. A row with NaN or +inf stays as it is.
void keep_top_p(const float* logits, int64_t rows, int64_t vocab, double inverse_temperature, double top_p,
                float* kept);

}  // namespace keel::cpu
