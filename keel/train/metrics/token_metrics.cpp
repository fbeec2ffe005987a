#include "keel/train/metrics/token_metrics.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "keel/objective/regions/divergence.h"
#include "keel/train/metrics/sample_recorder.h"

namespace keel {
namespace {

enum Sum {
  kTokens,
  kPositive,
  kNegative,
  kMasked,
  kMaskedPositive,
  kMaskedNegative,
  kMaskedMu,
  kMaskedEntropy,
  kBadUpdates,
  kOutside,
  kChoices,
  kOutsideChoices,
  kDivergence,
  kInfinite,
  kRatio,
  kClamped,
  kInvalid,
  kEntropy,
  kKlBehavior,
  kKlReference,
  kMismatchTokens,
  kMismatch,
  kTopKTokens,
  kTopKMass,
  kSumCount
};
enum Maximum { kDivergenceMax, kRatioMax, kMismatchMax, kRiseMax, kFallMax, kMaximumCount };

/// A negative update of a token whose probability fell by this much is bad (arXiv 2602.04879, section 5.3).
constexpr double kBadFall = 0.5;

Tensor is_log_probability(const Tensor& x) { return x.isfinite().logical_and(x <= 0); }

/// Returns 1, 2 and 5 times each power of ten, ascending, as their decimal literals.
std::vector<double> decade_limits(int first_power, int last_power) {
  std::vector<double> limits;
  for (int power = first_power; power <= last_power; ++power)
    for (const int digit : {1, 2, 5}) {
      const double scale = std::pow(10.0, std::abs(power));
      limits.push_back(power < 0 ? digit / scale : digit * scale);
    }
  return limits;
}

}  // namespace

void TokenMetricSums::add(const TokenStats& stats, const LossInputs& policy, const TokenDecision& decision,
                          bool before_first_update, const Tensor& reference_kl) {
  const at::NoGradGuard no_grad;
  if (policy.logp.numel() == 0) return;
  const Tensor ratio = probability_ratio(policy.logp, policy.behavior_logp);
  const Tensor positive = policy.advantages > 0, negative = policy.advantages < 0, masked = decision.keep.logical_not();
  const Tensor outside = decision.outside.defined() ? decision.outside : masked;
  // A token without a choice cannot leave mu: it would hide the divergence of the others.
  const Tensor choice = policy.choices.defined() ? policy.choices > 1 : at::ones_like(masked);
  const Tensor infinite = decision.divergence.isinf().logical_and(choice);
  const Tensor divergence = decision.divergence.masked_fill(infinite.logical_or(choice.logical_not()), 0);
  const Tensor mu = policy.behavior_logp.exp(), difference = policy.logp.exp() - mu, drift = difference.abs();
  const Tensor zero = at::zeros({}, ratio.options().dtype(at::kDouble));
  const auto sum = [](const Tensor& x) { return x.sum(at::kDouble); };

  std::vector<Tensor> sums(kSumCount, zero), maxima(kMaximumCount, zero);
  sums[kTokens] = sum(at::ones_like(ratio));
  sums[kPositive] = sum(positive);
  sums[kNegative] = sum(negative);
  sums[kMasked] = sum(masked);
  sums[kMaskedPositive] = sum(masked.logical_and(positive));
  sums[kMaskedNegative] = sum(masked.logical_and(negative));
  sums[kMaskedMu] = sum(mu.masked_fill(decision.keep, 0));
  sums[kMaskedEntropy] = sum(stats.entropy.masked_fill(decision.keep, 0));
  sums[kBadUpdates] = sum(negative.logical_and(difference <= -kBadFall));
  sums[kOutside] = sum(outside);
  sums[kChoices] = sum(choice);
  sums[kOutsideChoices] = sum(outside.logical_and(choice));
  is_truncated_ = is_truncated_ || policy.choices.defined();
  sums[kDivergence] = sum(divergence);
  sums[kInfinite] = sum(infinite);
  sums[kRatio] = sum(ratio);
  sums[kClamped] = sum(decision.clamped);
  sums[kInvalid] =
      sum(is_log_probability(policy.logp).logical_and(is_log_probability(policy.behavior_logp)).logical_not());
  sums[kEntropy] = sum(stats.entropy);
  sums[kKlBehavior] = sum(k3(policy.logp, policy.behavior_logp));
  if (reference_kl.defined()) {
    has_reference_ = true;
    sums[kKlReference] = sum(reference_kl);
  }
  maxima[kDivergenceMax] = divergence.max().to(at::kDouble);
  maxima[kRatioMax] = ratio.max().to(at::kDouble);
  maxima[kRiseMax] = difference.max().to(at::kDouble);
  maxima[kFallMax] = (-difference).max().to(at::kDouble);
  if (before_first_update) {
    sums[kMismatchTokens] = sums[kTokens];
    sums[kMismatch] = sum(drift);
    maxima[kMismatchMax] = drift.max().to(at::kDouble);
  }
  if (policy.topk_behavior_logp.defined()) {
    sums[kTopKTokens] = sums[kTokens];
    sums[kTopKMass] = sum(policy.topk_behavior_logp.exp());
  }
  divergences_.add(decision.divergence.masked_fill(choice.logical_not(), std::numeric_limits<double>::quiet_NaN()));
  ratios_.add(ratio);
  const Tensor new_sums = at::stack(sums), new_maxima = at::stack(maxima);
  sums_ = sums_.defined() ? sums_ + new_sums : new_sums;
  maxima_ = maxima_.defined() ? at::maximum(maxima_, new_maxima) : new_maxima;
}

void TokenMetricSums::end_update() {
  if (sums_.defined()) update_sums_.push_back(sums_);  // add() replaces the tensor and does not change it
}

/// Returns the fraction of masked tokens in each update, as differences of the sums so far.
std::vector<double> TokenMetricSums::masked_by_update() const {
  std::vector<double> fractions;
  if (update_sums_.empty()) return fractions;
  const Tensor all = at::stack(update_sums_).cpu();
  const auto sum = [&](int64_t update, Sum which) { return update < 0 ? 0 : all[update][which].item<double>(); };
  for (int64_t i = 0; i < all.size(0); ++i)
    fractions.push_back((sum(i, kMasked) - sum(i - 1, kMasked)) / std::max(sum(i, kTokens) - sum(i - 1, kTokens), 1.0));
  return fractions;
}

std::optional<TokenMetrics> TokenMetricSums::read() const {
  if (!sums_.defined()) return std::nullopt;
  const Tensor sums = sums_.cpu(), maxima = maxima_.cpu();
  const auto total = [&](Sum which) { return sums[which].item<double>(); };
  const auto count = [&](Sum which) { return static_cast<int64_t>(total(which)); };
  const auto ratio = [&](Sum part, Sum whole) { return total(part) / std::max(total(whole), 1.0); };
  const auto ratio_if = [&](bool known, Sum part, Sum whole) {
    return known ? std::optional(ratio(part, whole)) : std::nullopt;
  };
  const auto maximum = [&](Maximum which) { return maxima[which].item<double>(); };
  const bool any_masked = total(kMasked) > 0;
  return TokenMetrics{
      .entropy = ratio(kEntropy, kTokens),
      .kl_behavior = ratio(kKlBehavior, kTokens),
      .prob_difference_max = maximum(kRiseMax),
      .prob_difference_min = 0 - maximum(kFallMax),  // 0 and not -0
      .kl_reference = ratio_if(has_reference_, kKlReference, kTokens),
      .masked = ratio(kMasked, kTokens),
      .masked_positive = ratio(kMaskedPositive, kPositive),
      .masked_negative = ratio(kMaskedNegative, kNegative),
      .masked_by_update = masked_by_update(),
      .masked_mu_mean = ratio_if(any_masked, kMaskedMu, kMasked),
      .masked_entropy_mean = ratio_if(any_masked, kMaskedEntropy, kMasked),
      .bad_updates = ratio(kBadUpdates, kTokens),
      .topk_mass = ratio_if(total(kTopKTokens) > 0, kTopKMass, kTopKTokens),
      .outside = ratio(kOutside, kTokens),
      .choices = ratio_if(is_truncated_, kChoices, kTokens),
      .inside_choices = 1 - total(kOutsideChoices) / total(kChoices),
      .divergence_mean = total(kDivergence) / std::max(total(kChoices) - total(kInfinite), 1.0),
      .divergence_max = maximum(kDivergenceMax),
      .divergence_infinite = count(kInfinite),
      .mismatch_mean = ratio(kMismatch, kMismatchTokens),
      .mismatch_max = maximum(kMismatchMax),
      .ratio_mean = ratio(kRatio, kTokens),
      .ratio_max = maximum(kRatioMax),
      .invalid_tokens = count(kInvalid),
      .clamped = count(kClamped),
      .divergences = divergences_.read(),
      .ratios = ratios_.read(),
  };
}

TokenHistogram TokenHistogram::for_divergences() { return TokenHistogram(decade_limits(-8, 1)); }

TokenHistogram TokenHistogram::for_ratios() {
  std::vector<double> limits = decade_limits(-8, -1);
  limits.pop_back();  // 0.5 equals 1 - 0.5
  const std::vector<double> distances = decade_limits(-4, -1);
  for (auto distance = distances.rbegin(); distance != distances.rend(); ++distance) limits.push_back(1 - *distance);
  limits.push_back(1);
  for (const double distance : distances) limits.push_back(1 + distance);
  for (const double limit : decade_limits(0, 8))
    if (limit > limits.back()) limits.push_back(limit);
  return TokenHistogram(std::move(limits));
}

void TokenHistogram::add(const Tensor& values) {
  const at::NoGradGuard no_grad;
  if (values.numel() == 0) return;
  const Tensor finite = values.isfinite(), not_finite = finite.logical_not();
  const Tensor finite_values = values.to(at::kDouble).masked_fill(not_finite, 0);
  const auto options = finite_values.options();
  if (!counts_.defined()) {
    edges_ = at::tensor(limits_, at::kDouble).to(finite_values.device());
    counts_ = at::zeros({std::ssize(limits_) + 1}, options);
    sums_ = at::zeros({3}, options);
    min_ = at::full({}, std::numeric_limits<double>::infinity(), options);
    max_ = -min_;
  }
  counts_.index_add_(0, at::bucketize(finite_values, edges_), finite.to(at::kDouble));
  sums_ += at::stack({finite.sum(at::kDouble), finite_values.sum(), finite_values.square().sum()});
  min_ = at::minimum(min_, finite_values.masked_fill(not_finite, std::numeric_limits<double>::infinity()).min());
  max_ = at::maximum(max_, finite_values.masked_fill(not_finite, -std::numeric_limits<double>::infinity()).max());
}

std::optional<Histogram> TokenHistogram::read() const {
  if (!counts_.defined()) return std::nullopt;
  const Tensor all = at::cat({counts_, sums_, min_.view({1}), max_.view({1})}).cpu();
  const std::vector<double> read(all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel());
  const auto rest = read.begin() + std::ssize(limits_) + 1;
  if (rest[0] == 0) return std::nullopt;
  Histogram histogram{.count = static_cast<int64_t>(rest[0]),
                      .sum = rest[1],
                      .sum_of_squares = rest[2],
                      .smallest = rest[3],
                      .largest = rest[4]};
  const auto is_filled = [](double count) { return count > 0; };
  const auto first = std::find_if(read.begin(), rest, is_filled);
  const auto end = std::find_if(std::reverse_iterator(rest), read.rend(), is_filled).base();
  for (auto count = first; count != end; ++count) {
    const auto bucket = static_cast<size_t>(count - read.begin());
    histogram.limits.push_back(bucket < limits_.size() ? limits_[bucket] : histogram.largest);
    histogram.counts.push_back(static_cast<int64_t>(*count));
  }
  return histogram;
}

void BlockedTokens::add(const TokenUpdate& tokens, int64_t vocabulary) {
  const at::NoGradGuard no_grad;
  const Tensor ids = tokens.batch.targets.narrow(0, tokens.begin, tokens.loss_inputs.logp.size(0)),
               blocked = tokens.decision.keep.logical_not();
  if (!counts_.defined()) counts_ = at::zeros({2, vocabulary}, ids.options());
  const Tensor& advantages = tokens.loss_inputs.advantages;
  counts_[0].index_add_(0, ids, blocked.logical_and(advantages > 0).to(at::kLong));
  counts_[1].index_add_(0, ids, blocked.logical_and(advantages < 0).to(at::kLong));
}

std::vector<BlockedToken> BlockedTokens::top(const Tokenizer& tokenizer) const {
  constexpr size_t kMaxTokens = 10;
  std::vector<BlockedToken> tokens;
  if (!counts_.defined()) return tokens;
  const Tensor counts = counts_.cpu();
  const int64_t size = counts.size(1);
  const int64_t* positive = counts.const_data_ptr<int64_t>();
  for (int64_t id = 0; id < size; ++id)
    if (positive[id] + positive[size + id] > 0)
      tokens.push_back({static_cast<int32_t>(id), "", positive[id], positive[size + id]});
  std::stable_sort(tokens.begin(), tokens.end(), [](const BlockedToken& a, const BlockedToken& b) {
    return a.positive + a.negative > b.positive + b.negative;
  });
  tokens.resize(std::min(tokens.size(), kMaxTokens));
  for (BlockedToken& token : tokens) token.text = token_text(tokenizer, token.id);
  return tokens;
}

Json to_json(const std::vector<BlockedToken>& tokens) {
  Json rows = Json::array();
  for (const BlockedToken& token : tokens)
    rows.push_back(
        {{"id", token.id}, {"text", token.text}, {"positive", token.positive}, {"negative", token.negative}});
  return rows;
}

}  // namespace keel
