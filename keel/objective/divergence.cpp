#include "keel/objective/divergence.h"

#include <ATen/ATen.h>

#include <numbers>

namespace keel {

Tensor log1mexp(const Tensor& x) {
  return at::where(x > -std::numbers::ln2, at::log(-at::expm1(x)), at::log1p(-at::exp(x)));
}

Tensor probability_ratio(const Tensor& logp, const Tensor& anchor_logp) {
  return (logp - anchor_logp).clamp(-kMaxLogRatio, kMaxLogRatio).exp();
}

Tensor binary_tv(const Tensor& logp, const Tensor& behavior_logp) {
  // The larger one times (1 - e^-|d|) keeps its digits where pi - mu cancels, and nothing in it overflows.
  return at::maximum(logp, behavior_logp).exp() * -at::expm1(-(logp - behavior_logp).abs());
}

Tensor binary_kl(const Tensor& logp, const Tensor& behavior_logp) {
  const Tensor mu = behavior_logp.exp(), other_mu = log1mexp(behavior_logp), other_pi = log1mexp(logp);
  const Tensor sampled = mu * (behavior_logp - logp);
  // 0 log 0 is 0: where mu is 1 the other tokens weigh nothing, whatever pi says of them.
  const Tensor other = at::where(at::isneginf(other_mu), at::zeros_like(mu), other_mu.exp() * (other_mu - other_pi));
  return (sampled + other).clamp_min(0);
}

}  // namespace keel
