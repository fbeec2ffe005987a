#include "keel/objective/centering.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "keel/core/error.h"

namespace keel {
namespace {

constexpr double kMinTail = 1e-7;  // a smaller rest 1 - sum p is rounding of float32 log-probs

float max_weight(double ratio_cap) { return std::min(static_cast<float>(ratio_cap), TokenWeight().max_weight); }

TokenWeight capped(double ratio_cap) { return {.max_weight = max_weight(ratio_cap)}; }

TokenWeight constant_one() { return {.min_weight = 1, .max_weight = 1}; }

/// min(r, cap), blocked outside the band of ratios.
TokenWeight banded(double ratio_cap, double min_ratio, double max_ratio, double rare_mu = 0) {
  TokenWeight weight = capped(ratio_cap);
  weight.min_ratio = static_cast<float>(min_ratio), weight.max_ratio = static_cast<float>(max_ratio);
  weight.rare_mu = static_cast<float>(rare_mu);
  return weight;
}

template <class Region>
std::optional<TokenWeights> weights_of(const Region&) {
  return std::nullopt;
}

std::optional<TokenWeights> weights_of(const Reinforce&) { return TokenWeights{constant_one(), constant_one()}; }

std::optional<TokenWeights> weights_of(const PolicyGradient& r) {
  return TokenWeights{capped(r.ratio_cap), capped(r.ratio_cap)};
}

std::optional<TokenWeights> weights_of(const Cispo& r) {
  if (r.anchor != Anchor::kBehavior) return std::nullopt;
  TokenWeight weight = capped(1 + r.high);
  weight.min_weight = std::max(weight.min_weight, static_cast<float>(1 - r.low));
  return TokenWeights{weight, weight};
}

std::optional<TokenWeights> weights_of(const PpoClip& r) {
  if (r.anchor != Anchor::kBehavior) return std::nullopt;
  return TokenWeights{banded(r.ratio_cap, 0, 1 + r.high), banded(r.ratio_cap, 1 - r.low, r.dual)};
}

std::optional<TokenWeights> weights_of(const RelaxedClip& r) {
  const double rare_high = r.relaxed == Side::kLow ? 0 : r.alpha, rare_low = r.relaxed == Side::kHigh ? 0 : r.alpha;
  return TokenWeights{banded(r.ratio_cap, 0, 1 + r.high, rare_high),
                      banded(r.ratio_cap, 1 - r.low, kUnlimited, rare_low)};
}

std::optional<TokenWeights> weights_of(const Aspo& r) {
  TokenWeight positive = banded(r.ratio_cap, 0, 1 + r.high);
  positive.inverse = true;
  return TokenWeights{positive, banded(r.ratio_cap, 1 - r.low, kUnlimited)};
}

std::optional<TokenWeights> weights_of(const UpGrpo& r) {
  return TokenWeights{constant_one(), banded(r.ratio_cap, 1 - r.low, r.dual)};
}

std::optional<TokenWeights> weights_of(const IcePopDirect& r) {
  const TokenWeight weight = banded(r.ratio_cap, r.ratio_low, r.ratio_high);
  return TokenWeights{weight, weight};
}

std::optional<TokenWeights> weights_of(const Dppo& r) {
  const bool kl = r.divergence == Divergence::kBinaryKl;
  if (r.anchor != Anchor::kBehavior || (!kl && r.divergence != Divergence::kBinaryTv)) return std::nullopt;
  TokenWeights weights{capped(r.ratio_cap), capped(r.ratio_cap)};
  (kl ? weights.positive.max_kl_rise : weights.positive.max_rise) = static_cast<float>(r.high);
  (kl ? weights.negative.max_kl_fall : weights.negative.max_fall) = static_cast<float>(r.low);
  return weights;
}

std::optional<TokenWeights> weights_of(const MinimalMask& r) {
  if (r.anchor != Anchor::kBehavior) return std::nullopt;
  TokenWeights weights{capped(r.ratio_cap), capped(r.ratio_cap)};
  weights.negative.max_fall = static_cast<float>(r.delta);
  return weights;
}

// The penalty of ipo and prime_rl_default is not multiplied by A.
std::optional<TokenWeights> weights_of(const Ipo& r) {
  if (r.tau > 0) return std::nullopt;
  TokenWeight weight = capped(r.ratio_cap);
  weight.max_rise = weight.max_fall = static_cast<float>(r.threshold);
  return TokenWeights{weight, weight};
}

std::optional<TokenWeights> weights_of(const PrimeRlDefault& r) {
  return r.tau > 0 ? std::nullopt : weights_of(Dppo{.low = r.low, .high = r.high, .ratio_cap = kUnlimited});
}

std::optional<TokenWeights> weights_of(const Spo& r) {
  const auto slope = static_cast<float>(1 / r.eps);
  return TokenWeights{{.ratio_slope = slope}, {.ratio_slope = -slope}};
}

/// r (1 - sign(A) (pi - mu)/delta).
TokenWeights sloped(double delta, TokenWeight weight) {
  TokenWeights weights{weight, weight};
  weights.positive.slope = static_cast<float>(1 / delta), weights.negative.slope = static_cast<float>(-1 / delta);
  return weights;
}

std::optional<TokenWeights> weights_of(const Drpo& r) {
  if (r.divergence != Divergence::kBinaryTv) return std::nullopt;
  return sloped(r.delta, capped(r.ratio_cap));
}

std::optional<TokenWeights> weights_of(const MaskDrpo& r) {
  TokenWeight weight = capped(r.ratio_cap);
  weight.slope_from = static_cast<float>(r.delta);
  return sloped(r.delta, weight);
}

std::optional<TokenWeights> weights_of(const Sapo& r) {
  if (r.anchor != Anchor::kBehavior) return std::nullopt;
  // 4 sigmoid(x) sigmoid(-x) = 1/cosh(x/2)^2
  return TokenWeights{{.decay = static_cast<float>(r.tau_positive / 2)},
                      {.decay = static_cast<float>(r.tau_negative / 2)}};
}

std::optional<TokenWeights> weights_of(const Dgpo& r) {
  return TokenWeights{{.tail_above = static_cast<float>(1 + r.high), .tail_power = static_cast<float>(-1 / r.m)},
                      {.tail_below = static_cast<float>(1 - r.low), .tail_power = static_cast<float>(r.n)}};
}

}  // namespace

Centering parse_centering(const std::string& name) {
  if (name == "none") return Centering::kNone;
  if (name == "topk") return Centering::kTopK;
  if (name == "exact") return Centering::kExact;
  fail(ExitCode::kBadConfiguration, "centering is \"", name, "\"; known: none, topk, exact");
}

std::optional<TokenWeights> token_weights(const TrustRegion& region) {
  return std::visit([](const auto& r) { return weights_of(r); }, region);
}

std::string no_token_weights_reason(const TrustRegion& region) {
  const Requirements needs = requirements(region);
  if (needs.scope == Scope::kSequence) return "its weight depends on the whole sequence";
  if (needs.scope == Scope::kBatch) return "its weight depends on the whole update";
  if (needs.recomputed_logp) return "its weight depends on recomputed log-probs";
  if (needs.top_k > 0 || needs.hidden_states) return "its weight depends on a divergence over several tokens";
  return "its coefficient is not A times a function of pi, mu and the sign of A";
}

Tensor weighted_behavior(const TrustRegion& region, const Tensor& advantages, const Tensor& logp,
                         const Tensor& behavior_logp) {
  constexpr double kMinLogp = -1e4;  // of probability 0; finite, so that log-ratios are not NaN
  const Tensor pi = logp.to(at::kDouble).clamp_min(kMinLogp), mu = behavior_logp.to(at::kDouble).clamp_min(kMinLogp);
  const Tensor signs = at::where(advantages > 0, 1.0, -1.0).to(at::kDouble).unsqueeze(1).expand_as(pi);
  const LossInputs tokens{pi.flatten(), mu.flatten(), signs.flatten()};
  return mu.exp() * token_coefficients(region, tokens).coefficient.view_as(pi) * signs;
}

TopKCentering topk_centering(const TrustRegion& region, const Tensor& advantages, const Tensor& topk_logp,
                             const Tensor& topk_behavior_logp) {
  const Tensor pi = topk_logp.to(at::kDouble), mu = topk_behavior_logp.to(at::kDouble);
  const auto tail = [](const Tensor& logp) { return 1 - logp.exp().sum(1, /*keepdim=*/true); };
  const Tensor log_rho = tail(mu).clamp_min(kMinTail).log() - tail(pi).clamp_min(kMinTail).log();
  // The weight of the other tokens is that of a token with probability 0, so that no mask on probabilities blocks it.
  constexpr double kLogTiny = -69;
  const Tensor tiny = at::full_like(log_rho, kLogTiny);
  const Tensor masses = weighted_behavior(region, advantages, at::cat({pi, tiny}, 1), at::cat({mu, tiny + log_rho}, 1));
  const int64_t k = pi.size(1);
  const Tensor listed = masses.narrow(1, 0, k), others = masses.select(1, k) * std::exp(-kLogTiny);
  return {listed, others, listed.sum(1) + others * tail(pi).squeeze(1).clamp_min(0)};
}

}  // namespace keel
