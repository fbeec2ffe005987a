#pragma once

#include <cstdint>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Temperatures of sampling. Below the least one the tempered logits would leave float32; 0 is another thing: the
/// likeliest token, with the log-probs of the untempered distribution.
constexpr double kMinTemperature = 1e-4, kMaxTemperature = 100;

/// One drawn token per row.
struct SampledTokens {
  Tensor tokens;      // [S] int64; all others are float32, of the tempered distribution (the untempered one at 0):
  Tensor logp;        // [S] of the token
  Tensor other_logp;  // [S] log(1 - p) of it
  Tensor entropy;     // [S] of that distribution
  Tensor topk_ids = {}, topk_logp = {};  // [S, K] int64 and float32: its K likeliest tokens, the first one first
  Tensor together = {};                  // bytes in which all of these lie, where a GPU drew: one copy fetches them
};
/// The same on the CPU; as soon as the device has done what is queued where it is not waited for.
SampledTokens to_host(const SampledTokens& drawn, bool wait = true);

/// Draws a token from each row of logits [S, V] float32. `rollout_ids` and `positions` [S] int64, on the logits'
/// device, key the noise (as unsigned numbers). Also finds the `top_k` likeliest tokens, unless that is 0.
SampledTokens sample(const Tensor& logits, double temperature, uint64_t seed, const Tensor& rollout_ids,
                     const Tensor& positions, int64_t top_k = 0);

/// The logits [S, V] with normal noise of this deviation on each: a sampler that disagrees with the trainer. The noise
/// of a token is a function of (seed, rollout, position, token) alone. The same logits when the deviation is 0.
Tensor with_logit_noise(const Tensor& logits, double deviation, uint64_t seed, const Tensor& rollout_ids,
                        const Tensor& positions);

/// Which tokens can be drawn at all; by default every one.
struct Truncation {
  int64_t top_k = 0;   // above 0: only so many of the likeliest tokens
  double top_p = 1.0;  // below 1: of these the smallest set of the likeliest whose probabilities add up to it
  double min_p = 0.0;  // above 0: of these the ones with at least this share of the likeliest one's probability

  bool nothing() const { return top_k == 0 && top_p >= 1 && min_p <= 0; }
};

/// The logits with -inf for every token that cannot be drawn, in the order of transformers: top_k, top_p, min_p. Of
/// equally likely tokens top_p takes the lower ids first, and top_k all that are as likely as the last one. The same
/// logits where nothing is truncate_logits or the likeliest token is taken anyway (temperature 0).
Tensor truncate_logits(const Tensor& logits, double temperature, const Truncation& truncation);

/// The newest tokens of sequences that are being decoded, a row each, on one device.
struct ActiveSequences {
  Tensor tokens, positions;  // [N] int64: the token, and where it stands in its sequence
  Tensor places, limits;     // [N] int64: how many tokens of its completion there are, and may be
  Tensor rows;               // [N, 4] int32: a PagedRow each

  ActiveSequences first(int64_t count) const;
};

/// The rows go on with the tokens [N] that were drawn for them. A row whose token is one of `stop_ids`, or whose
/// completion has as many tokens as it may, stays where it is from then on, as does one that sees no prompt.
void advance(const ActiveSequences& running, const Tensor& drawn, const Tensor& stop_ids);

}  // namespace keel
