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

/// What is told of the tokens of a step: means, shares of them, extremes.
struct TokenMetrics {
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

/// Counts the numbers of a step's tokens between given limits, on the device; read once. It owns the counts.
class TokenHistogram {
 public:
  /// In rising order. What is above the last has a bucket of its own.
  explicit TokenHistogram(std::vector<double> limits) : limits_(std::move(limits)) {}

  /// Of |pi - mu| and its kin, which are 0 or above: three limits for each power of ten from 1e-8 to 100.
  static TokenHistogram for_divergences();
  /// Of pi / mu: the same steps away from 1, on either side of it.
  static TokenHistogram for_ratios();

  /// Numbers that are not finite are left out.
  void add(const Tensor& values);
  /// Nothing where there was no number.
  std::optional<Histogram> read() const;

 private:
  std::vector<double> limits_;
  Tensor edges_;                // the limits, where the numbers are
  Tensor counts_;               // [limits + 1] float64: whole numbers, whatever the order of addition
  Tensor sums_, least_, most_;  // [count, sum, sum of squares]; scalars
};

/// Sums over the tokens of a step, kept on the device and read once: the trust region's effect, and pi's drift from mu.
/// It owns the sums.
class TokenMetricSums {
 public:
  /// Adds the tokens of a chunk. `equal_parameters`: no update since they were sampled, so that |pi - mu| is the
  /// mismatch between sampler and trainer and not the policy's drift. `reference_kl`: of each token, or undefined.
  void add(const TokenStats& stats, const LossInputs& policy, const TokenDecision& decision, bool equal_parameters,
           const Tensor& reference_kl = {});

  /// Nothing where there was no token.
  std::optional<TokenMetrics> numbers() const;

 private:
  Tensor sums_, maxima_;  // float64, see the .cpp for the order
  TokenHistogram divergences_ = TokenHistogram::for_divergences(), ratios_ = TokenHistogram::for_ratios();
  bool has_reference_ = false;
};

/// A token of the vocabulary, and how often a step's updates blocked it.
struct BlockedToken {
  int32_t id = 0;
  std::string text;
  int64_t positive = 0, negative = 0;  // by the sign of its advantage
};

/// Counts which tokens of the vocabulary the updates of a step blocked, on the device; read once. It owns the counts.
class BlockedTokens {
 public:
  void add(const TokenUpdate& tokens, int64_t vocabulary);
  /// Those that were blocked most often, the first ten of them; of as many the one with the smaller id.
  std::vector<BlockedToken> most(const Tokenizer& tokenizer) const;

 private:
  Tensor counts_;  // [2, vocabulary] int64: of positive advantages, of negative ones
};

Json to_json(const std::vector<BlockedToken>& tokens);

}  // namespace keel
