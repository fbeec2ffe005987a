#include "keel/objective/regions/policy_gradient.h"

#include <ATen/ATen.h>

namespace keel {
namespace {

/// The decision of a method without a trust region. It reports |pi - mu| with an infinite threshold.
TokenDecision no_region(const LossInputs& p, const ClampedTensor& coefficient) {
  return no_mask(p, coefficient, binary_tv(p.logp, p.behavior_logp), kUnlimited);
}

}  // namespace

TokenDecision Reinforce::operator()(const LossInputs& p) const { return no_region(p, {p.advantages, zero_count(p)}); }

TokenDecision PolicyGradient::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = capped_ratio(p, ratio_cap);
  return no_region(p, {ratio * p.advantages, clamps});
}

TokenDecision Cispo::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = importance_ratio(p, anchor);
  return no_region(p, {ratio.clamp(1 - low, 1 + high) * p.advantages, clamps});
}

TokenDecision Dro::operator()(const LossInputs& p) const {
  return no_region(p, {p.advantages - beta * (p.logp - p.behavior_logp), zero_count(p)});
}

TokenDecision TvPenalty::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = importance_ratio(p);
  return no_region(p, {ratio * (p.advantages - weight * (p.logp - p.behavior_logp).sign()), clamps});
}

TokenDecision K3Penalty::operator()(const LossInputs& p) const {
  // r - 1; expm1 keeps precision where r is near 1.
  const Tensor ratio_minus_one = (p.logp - p.behavior_logp).clamp(-kMaxLogRatio, kMaxLogRatio).expm1();
  const auto [ratio, clamps] = importance_ratio(p);
  return no_region(p, {ratio * p.advantages - weight * ratio_minus_one, clamps});
}

std::vector<MethodRow<PolicyGradientFamily>> policy_gradient_rows() {
  const std::string dppo = "arXiv 2602.04879, appendix C.1";
  const std::string advantage = "group_mean", aggregation = "seq_mean_token_sum_norm";
  return {
      {.name = "pg_is",
       .summary = "Importance-weighted policy gradient without a trust region.",
       .equation = "g = r A, r = pi/mu; nothing is blocked",
       .source = dppo,
       .advantage = advantage,
       .aggregation = aggregation,
       .region = PolicyGradient{}},
      {.name = "pg_tis",
       .summary = "Policy gradient with truncated importance weights.",
       .equation = "g = min(r, ratio_cap) A; nothing is blocked",
       .source = dppo,
       .advantage = advantage,
       .aggregation = aggregation,
       .region = PolicyGradient{.ratio_cap = 3}},
      {.name = "pg",
       .summary = "Policy gradient without importance weights: treats every sample as on-policy.",
       .equation = "g = A; nothing is blocked",
       .source = "Williams 1992; " + dppo,
       .advantage = advantage,
       .aggregation = aggregation,
       .region = Reinforce{}},
      {.name = "cispo",
       .summary = "Clipped importance weights; no token is blocked.",
       .equation = "g = clip(r, 1 - low, 1 + high) A, low null: no lower bound; nothing is blocked",
       .source = "arXiv 2506.13585; with a lower bound as verl writes it",
       .advantage = "grpo",
       .aggregation = "token_mean",
       .region = Cispo{}},
      {.name = "dro",
       .summary = "Policy gradient with a quadratic penalty on the log-ratio.",
       .equation = "g = A - beta log r; nothing is blocked",
       .source = "arXiv 2405.19107; as verl writes it",
       .advantage = advantage,
       .aggregation = aggregation,
       .region = Dro{}},
      {.name = "tv_penalty",
       .summary = "A penalty on |r - 1|: an ablation of the quadratic penalty of DRPO.",
       .equation = "g = r (A - weight sign(log r)); nothing is blocked",
       .source = "derived from J = r A - weight |r - 1|; arXiv 2606.09821, ablations",
       .advantage = advantage,
       .aggregation = aggregation,
       .region = TvPenalty{}},
      {.name = "k3_penalty",
       .summary = "A penalty on the k3 estimate of the KL divergence: an ablation of the quadratic penalty of DRPO.",
       .equation = "g = r A - weight (r - 1); nothing is blocked",
       .source = "derived from J = r A - weight (r - 1 - log r); arXiv 2606.09821, ablations",
       .advantage = advantage,
       .aggregation = aggregation,
       .region = K3Penalty{}}};
}

}  // namespace keel
