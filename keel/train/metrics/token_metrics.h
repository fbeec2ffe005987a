#pragma once

#include <cstdint>
#include <optional>

#include "keel/objective/regions/trust_region.h"
#include "keel/ops/lm_head.h"
#include "keel/train/metrics/token_histogram.h"

namespace keel {

/// What is told of the tokens of a step: means, shares of them, extremes.
struct TokenNumbers {
  double entropy = 0, kl_behavior = 0;
  double prob_difference_max = 0, prob_difference_min = 0;  // of pi - mu
  std::optional<double> kl_reference;                       // where there is a reference
  double masked = 0, masked_positive = 0, masked_negative = 0;
  std::optional<double> masked_mu_mean, masked_entropy_mean;  // of the masked ones, where there are any
  double bad_updates = 0;
  std::optional<double> topk_mass;  // where the likeliest tokens were recorded
  double outside = 0;               // of the trust region
  double divergence_mean = 0, divergence_max = 0;
  int64_t divergence_infinite = 0;
  double mismatch_mean = 0, mismatch_max = 0;  // of |pi - mu| before the first update
  double ratio_mean = 0, ratio_max = 0;
  int64_t invalid_tokens = 0, clamped = 0;
  std::optional<Histogram> divergences, ratios;
};

/// Sums over the tokens of a step, kept on the device and read once: what the trust region did, and how far pi is from
/// mu.
class TokenMetrics {
 public:
  /// Adds tokens of one chunk. `equal_parameters`: no update was made since they were sampled, so that |pi - mu| is the
  /// mismatch between sampler and trainer and not the policy's drift. `reference_kl`: each token's, where there is a
  /// reference.
  void add(const TokenStats& stats, const TokenPolicy& policy, const TokenDecision& decision, bool equal_parameters,
           const Tensor& reference_kl = {});

  /// Nothing where there was no token.
  std::optional<TokenNumbers> numbers() const;

 private:
  Tensor sums_, maxima_;  // float64, see the .cpp for the order
  TokenHistogram divergences_ = TokenHistogram::of_divergences(), ratios_ = TokenHistogram::of_ratios();
  bool has_reference_ = false;
};

}  // namespace keel
