#include "keel/train/metrics/token_metrics.h"

#include <ATen/ATen.h>

#include "keel/objective/regions/divergence.h"

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

/// A negative update of a token that has lost this much probability is what the DPPO paper calls a bad one (arXiv
/// 2602.04879, section 5.3).
constexpr double kBadFall = 0.5;

Tensor is_log_probability(const Tensor& x) { return x.isfinite().logical_and(x <= 0); }

}  // namespace

void TokenMetrics::add(const TokenStats& stats, const TokenPolicy& policy, const TokenDecision& decision,
                       bool equal_parameters, const Tensor& reference_kl) {
  const at::NoGradGuard no_grad;
  if (policy.logp.numel() == 0) return;
  const Tensor ratio = probability_ratio(policy.logp, policy.behavior_logp);
  const Tensor positive = policy.advantages > 0, negative = policy.advantages < 0, masked = decision.keep.logical_not();
  const Tensor infinite = decision.divergence.isinf();
  const Tensor divergence = decision.divergence.masked_fill(infinite, 0);
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
  sums[kOutside] = sum(decision.outside.defined() ? decision.outside : masked);
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
  if (equal_parameters) {
    sums[kMismatchTokens] = sums[kTokens];
    sums[kMismatch] = sum(drift);
    maxima[kMismatchMax] = drift.max().to(at::kDouble);
  }
  if (policy.topk_behavior_logp.defined()) {
    sums[kTopKTokens] = sums[kTokens];
    sums[kTopKMass] = sum(policy.topk_behavior_logp.exp());
  }
  divergences_.add(decision.divergence);
  ratios_.add(ratio);
  const Tensor new_sums = at::stack(sums), new_maxima = at::stack(maxima);
  sums_ = sums_.defined() ? sums_ + new_sums : new_sums;
  maxima_ = maxima_.defined() ? at::maximum(maxima_, new_maxima) : new_maxima;
}

std::optional<TokenNumbers> TokenMetrics::numbers() const {
  if (!sums_.defined()) return std::nullopt;
  const Tensor sums = sums_.cpu(), maxima = maxima_.cpu();
  const auto total = [&](Sum which) { return sums[which].item<double>(); };
  const auto count = [&](Sum which) { return static_cast<int64_t>(total(which)); };
  const auto share = [&](Sum part, Sum whole) { return total(part) / std::max(total(whole), 1.0); };
  const auto share_if = [&](bool known, Sum part, Sum whole) {
    return known ? std::optional(share(part, whole)) : std::nullopt;
  };
  const auto largest = [&](Maximum which) { return maxima[which].item<double>(); };
  const bool any_masked = total(kMasked) > 0;
  return TokenNumbers{
      .entropy = share(kEntropy, kTokens),
      .kl_behavior = share(kKlBehavior, kTokens),
      .prob_difference_max = largest(kRiseMax),
      .prob_difference_min = 0 - largest(kFallMax),  // 0 and not -0
      .kl_reference = share_if(has_reference_, kKlReference, kTokens),
      .masked = share(kMasked, kTokens),
      .masked_positive = share(kMaskedPositive, kPositive),
      .masked_negative = share(kMaskedNegative, kNegative),
      .masked_mu_mean = share_if(any_masked, kMaskedMu, kMasked),
      .masked_entropy_mean = share_if(any_masked, kMaskedEntropy, kMasked),
      .bad_updates = share(kBadUpdates, kTokens),
      .topk_mass = share_if(total(kTopKTokens) > 0, kTopKMass, kTopKTokens),
      .outside = share(kOutside, kTokens),
      .divergence_mean = total(kDivergence) / std::max(total(kTokens) - total(kInfinite), 1.0),
      .divergence_max = largest(kDivergenceMax),
      .divergence_infinite = count(kInfinite),
      .mismatch_mean = share(kMismatch, kMismatchTokens),
      .mismatch_max = largest(kMismatchMax),
      .ratio_mean = share(kRatio, kTokens),
      .ratio_max = largest(kRatioMax),
      .invalid_tokens = count(kInvalid),
      .clamped = count(kClamped),
      .divergences = divergences_.read(),
      .ratios = ratios_.read(),
  };
}

}  // namespace keel
