#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/histogram.h"
#include "keel/core/json.h"
#include "keel/core/tensor/tensor.h"
#include "keel/objective/regions/trust_region.h"
#include "keel/ops/lm_head.h"
#include "keel/train/update/policy_update.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// Means, fractions and extremes over the tokens of a step.
struct TokenMetrics {
  double entropy = 0, kl_behavior = 0;
  double prob_difference_max = 0, prob_difference_min = 0;  // of pi - mu
  std::optional<double> kl_reference;                       // if there is a reference
  double masked = 0, masked_positive = 0, masked_negative = 0;
  std::vector<double> masked_by_update;                       // the fraction in each update of the step
  std::optional<double> masked_mu_mean, masked_entropy_mean;  // of masked tokens, if any
  double bad_updates = 0;                                     // fraction with A < 0 and pi <= mu - 0.5
  std::optional<double> topk_mass;                            // if the top-K tokens were recorded
  double outside = 0;                                         // the trust region
  std::optional<double> choices;  // fraction of tokens with more than one choice, if sampling was truncated
  double inside_choices = 0;      // fraction of these tokens (without truncation: of all) inside the region, or NaN
  double divergence_mean = 0, divergence_max = 0;  // of tokens with more than one choice
  int64_t divergence_infinite = 0;
  double mismatch_mean = 0, mismatch_max = 0;  // of |pi - mu| before the first update
  double ratio_mean = 0, ratio_max = 0;
  int64_t invalid_tokens = 0, clamped = 0;
  std::optional<Histogram> divergences, ratios;
};

/// Histogram of a value over the tokens of a step, counted on the device and read once.
class TokenHistogram {
 public:
  /// `limits` are the ascending upper bounds of the buckets; one more bucket has the values above the last.
  explicit TokenHistogram(std::vector<double> limits) : limits_(std::move(limits)) {}

  /// For |pi - mu| and other non-negative divergences: three limits per power of ten, from 1e-8 to 50.
  static TokenHistogram for_divergences();
  /// For pi / mu: similar limits for the distance from 1, in both directions.
  static TokenHistogram for_ratios();

  /// Ignores NaN and infinity.
  void add(const Tensor& values);
  /// Returns nullopt if there was no value.
  std::optional<Histogram> read() const;

 private:
  std::vector<double> limits_;
  Tensor edges_;             // the limits, on the device
  Tensor counts_;            // [limits + 1] float64; integers, so the order of addition does not matter
  Tensor sums_, min_, max_;  // [count, sum, sum of squares]; scalars
};

/// Accumulates TokenMetrics on the device, to be read once per step.
class TokenMetricSums {
 public:
  /// Adds the tokens of a chunk. Before the step's first update of the policy, |pi - mu| counts as the mismatch between
  /// sampler and trainer; with rollout.staleness it contains the drift of those steps. `reference_kl` has one estimate
  /// per token, or is undefined.
  void add(const TokenStats& stats, const LossInputs& policy, const TokenDecision& decision, bool before_first_update,
           const Tensor& reference_kl = {});

  /// Ends an update: the tokens added since the previous call are its tokens.
  void end_update();

  /// Returns nullopt if there was no token.
  std::optional<TokenMetrics> read() const;

 private:
  Tensor sums_, maxima_;             // float64, indexed by Sum and Maximum
  std::vector<Tensor> update_sums_;  // sums_ at the end of each update
  TokenHistogram divergences_ = TokenHistogram::for_divergences(), ratios_ = TokenHistogram::for_ratios();
  bool has_reference_ = false, is_truncated_ = false;

  std::vector<double> masked_by_update() const;
};

/// A vocabulary entry, and how often the trust region masked it in a step.
struct BlockedToken {
  int32_t id = 0;
  std::string text;
  int64_t positive = 0, negative = 0;  // by the sign of the advantage
};

/// Counts masked tokens per vocabulary entry, on the device.
class BlockedTokens {
 public:
  void add(const TokenUpdate& tokens, int64_t vocabulary);
  /// Returns the ten most often masked entries, the smaller id first for equal counts.
  std::vector<BlockedToken> top(const Tokenizer& tokenizer) const;

 private:
  Tensor counts_;  // [2, vocabulary] int64: for positive and for negative advantages
};

Json to_json(const std::vector<BlockedToken>& tokens);

}  // namespace keel
