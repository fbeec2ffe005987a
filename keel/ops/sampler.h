#pragma once

#include <cstdint>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Range of sampling temperatures; smaller ones would overflow float32. Temperature 0 is greedy: it takes the most
/// likely token and reports log-probs at temperature 1.
constexpr double kMinTemperature = 1e-4, kMaxTemperature = 100;

/// One sampled token per row. Probabilities are float32, of the distribution at the sampling temperature (1 if greedy).
struct SampledTokens {
  Tensor tokens;                         // [S] int64
  Tensor logp;                           // [S] log p of the token
  Tensor other_logp;                     // [S] log(1 - p) of the token
  Tensor entropy;                        // [S] of the distribution
  Tensor topk_ids = {}, topk_logp = {};  // [S, K] int64 and float32: the K most likely tokens, most likely first
  Tensor kept = {};                      // [S, bitmap_words(V)] int32: bitmaps of the tokens that the filter kept
  Tensor storage = {};                   // on a GPU: the bytes of all tensors above but `kept`: one copy fetches them
};
/// Copies to the CPU. Without `wait` the result is valid once the device has finished the work launched so far.
SampledTokens to_host(const SampledTokens& sampled, bool wait = true);

/// Samples a token from each row of logits [S, V] float32. `rollout_ids` and `completion_positions` [S] int64, on the
/// logits' device, key the noise (as unsigned numbers). Also finds the `top_k` most likely tokens, unless that is 0.
SampledTokens sample(const Tensor& logits, double temperature, uint64_t seed, const Tensor& rollout_ids,
                     const Tensor& completion_positions, int64_t top_k = 0);

/// Adds normal noise of this standard deviation to logits [S, V], which makes sampler and trainer differ. The noise is
/// a function of (seed, rollout, position, token) alone. Returns the input if the deviation is 0.
Tensor with_logit_noise(const Tensor& logits, double deviation, uint64_t seed, const Tensor& rollout_ids,
                        const Tensor& completion_positions);

/// Restricts sampling to likely tokens. The default keeps all tokens; the limits apply in this order.
struct SamplingFilter {
  int64_t top_k = 0;   // above 0: keeps the k most likely tokens
  double top_p = 1.0;  // below 1: keeps the smallest set of most likely tokens with this total probability
  double min_p = 0.0;  // above 0: keeps tokens with at least this fraction of the highest probability

  bool keeps_all() const { return top_k == 0 && top_p >= 1 && min_p <= 0; }
};

/// Sets the logits of excluded tokens to -inf, by top_k, top_p and min_p in this order, as transformers does. Of
/// equally likely tokens top_p keeps the lower ids first, and top_k keeps all that tie with the k-th. Returns the input
/// if the filter keeps all tokens or the temperature is 0.
Tensor filter_logits(const Tensor& logits, double temperature, const SamplingFilter& filter);

/// State of the sequences of a decode batch, one row each, on one device.
struct ActiveSequences {
  Tensor tokens, positions;              // [N] int64: newest token, and its position in the sequence
  Tensor num_generated, max_new_tokens;  // [N] int64: tokens of the completion so far, and their limit
  Tensor rows;                           // [N, 4] int32: a PagedRow each

  ActiveSequences first(int64_t count) const;
};

/// Appends the sampled tokens [N] to the sequences. A row that samples one of `stop_ids` or reaches its limit does not
/// change afterwards; nor does a padding row, which has no prompt keys.
void advance(const ActiveSequences& batch, const Tensor& sampled, const Tensor& stop_ids);

}  // namespace keel
