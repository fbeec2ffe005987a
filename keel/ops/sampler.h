#pragma once

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Temperatures of sampling. Below the least one the tempered logits would leave float32; 0 is another thing: the
/// likeliest token, with the log-probs of the untempered distribution.
constexpr double kMinTemperature = 1e-4, kMaxTemperature = 100;

/// One drawn token per row.
struct Drawn {
  Tensor tokens;      // [S] int64
  Tensor logp;        // [S] float32, of the tempered distribution (of the untempered one at temperature 0)
  Tensor other_logp;  // [S] float32, log(1 - p) of the same
};

/// Draws a token from each row of logits [S, V] float32. `rollout_ids` and `positions` [S] int64, on the logits'
/// device, key the noise; they are interpreted as unsigned.
Drawn sample(const Tensor& logits, double temperature, uint64_t seed, const Tensor& rollout_ids,
             const Tensor& positions);

/// The logits with -inf for every token outside the smallest set of likeliest tokens whose probabilities, at the
/// temperature, add up to `top_p`; of equally likely tokens the lower ids come first. The same logits when nothing is
/// to be left out (top_p 1) or the likeliest token is taken anyway (temperature 0).
Tensor nucleus(const Tensor& logits, double temperature, double top_p);

/// The logits with -inf for every token that is less likely than the k-th likeliest. The same logits when nothing is to
/// be left out (k 0) or the likeliest token is taken anyway (temperature 0).
Tensor likeliest(const Tensor& logits, double temperature, int64_t k);

}  // namespace keel
