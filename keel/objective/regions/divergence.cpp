#include "keel/objective/regions/divergence.h"

#include <ATen/ATen.h>

#include <limits>
#include <numbers>

namespace keel {
namespace {

constexpr double kMinOther = 1e-12;  // as in the DPPO release: rounding can make the remaining probability negative

/// Appends the log-prob of "any other token" to the log-probs of the top-K and sampled tokens.
Tensor append_other(const Tensor& topk, const Tensor& sampled, const Tensor& sampled_in_topk, const Tensor& choices,
                    TopKSupport support) {
  const int64_t k = topk.size(-1);
  const Tensor inside = sampled_in_topk.unsqueeze(-1), extra = sampled.unsqueeze(-1);
  const Tensor tokens =
      support == TopKSupport::kUnion
          ? at::cat({topk, extra.masked_fill(inside, -std::numeric_limits<double>::infinity())}, -1)
          : at::cat({topk.narrow(-1, 0, k - 1), at::where(inside, topk.narrow(-1, k - 1, 1), extra)}, -1);
  Tensor other = (1 - tokens.exp().sum(-1, /*keepdim=*/true)).clamp_min(kMinOther);
  if (choices.defined()) other = other.masked_fill(choices.unsqueeze(-1) <= k, 0);
  return at::cat({tokens, other.log()}, -1);
}

/// Applies `measure` to the top-K rows of both policies in float64, since 1 - sum cancels in float32.
template <class Measure>
Tensor topk_divergence(const TopKLogProbs& p, TopKSupport support, Measure measure) {
  const auto to_double = [](const Tensor& x) { return x.to(at::kDouble); };
  const Tensor pi = append_other(to_double(p.logp), to_double(p.sampled_logp), p.sampled_in_topk, p.choices, support);
  const Tensor mu = append_other(to_double(p.behavior_logp), to_double(p.sampled_behavior_logp), p.sampled_in_topk,
                                 p.choices, support);
  return measure(pi, mu).to(p.sampled_logp.scalar_type());
}

}  // namespace

Tensor log1mexp(const Tensor& x) {
  return at::where(x > -std::numbers::ln2, at::log(-at::expm1(x)), at::log1p(-at::exp(x)));
}

Tensor count_clamped(const Tensor& log_ratio) { return (log_ratio.abs() > kMaxLogRatio).sum(); }

Tensor probability_ratio(const Tensor& logp, const Tensor& anchor_logp) {
  return (logp - anchor_logp).clamp(-kMaxLogRatio, kMaxLogRatio).exp();
}

Tensor probability_difference(const Tensor& logp, const Tensor& behavior_logp) {
  return (logp - behavior_logp).sign() * binary_tv(logp, behavior_logp);
}

Tensor binary_tv(const Tensor& logp, const Tensor& behavior_logp) {
  // max(pi, mu) (1 - e^-|d|) stays precise where pi - mu cancels, and cannot overflow.
  return at::maximum(logp, behavior_logp).exp() * -at::expm1(-(logp - behavior_logp).abs());
}

Tensor binary_kl(const Tensor& logp, const Tensor& behavior_logp, const Tensor& other_logp,
                 const Tensor& behavior_other_logp) {
  const Tensor mu = behavior_logp.exp(), log_other_pi = other_logp.defined() ? other_logp : log1mexp(logp);
  const Tensor log_other_mu = behavior_other_logp.defined() ? behavior_other_logp : log1mexp(behavior_logp);
  const Tensor sampled_term = mu * (behavior_logp - logp), other_mass = log_other_mu.exp();
  // 0 log 0 is 0: if mu is 1, the other tokens contribute nothing.
  const Tensor other_term = at::where(other_mass == 0, at::zeros_like(mu), other_mass * (log_other_mu - log_other_pi));
  return (sampled_term + other_term).clamp_min(0);
}

Tensor topk_tv(const TopKLogProbs& p, TopKSupport support) { return topk_divergence(p, support, full_tv); }
Tensor topk_kl(const TopKLogProbs& p, TopKSupport support) { return topk_divergence(p, support, full_kl); }

Tensor full_tv(const Tensor& logp, const Tensor& behavior_logp) {
  return (logp.exp() - behavior_logp.exp()).abs().sum(-1) / 2;
}

Tensor full_kl(const Tensor& logp, const Tensor& behavior_logp) {
  const Tensor mu = behavior_logp.exp();
  // Tokens with mu = 0 contribute nothing.
  return at::where(mu > 0, mu * (behavior_logp - logp), at::zeros_like(mu)).sum(-1).clamp_min(0);
}

Tensor k1(const Tensor& logp, const Tensor& behavior_logp) { return behavior_logp - logp; }
Tensor k2(const Tensor& logp, const Tensor& behavior_logp) { return (logp - behavior_logp).square() / 2; }
Tensor k3(const Tensor& logp, const Tensor& behavior_logp) {
  const Tensor d = logp - behavior_logp;
  // Near 0 the difference cancels even with expm1, so a Taylor series is used there.
  const Tensor series = d.square() / 2 * (1 + d / 3 * (1 + d / 4 * (1 + d / 5 * (1 + d / 6))));
  return at::where(d.abs() < 0.01, series, at::expm1(d.clamp(-kMaxLogRatio, kMaxLogRatio)) - d);
}

}  // namespace keel
