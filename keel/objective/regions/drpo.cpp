#include "keel/objective/regions/drpo.h"

#include <ATen/ATen.h>

namespace keel {
namespace {

/// g = r A (1 - sign(A) step/width), where `step` is the signed distance.
TokenDecision quadratic_penalty(const LossInputs& p, const ClampedTensor& ratio, const Tensor& step, double width) {
  const Tensor weight = ratio.value * (1 - p.advantages.sign() * step / width), distance = step.abs();
  return no_mask(p, {weight * p.advantages, ratio.count}, distance, width, distance > width);
}

MethodRow<DrpoFamily> drpo_row(const std::string& name, const std::string& summary, const std::string& equation,
                               const DrpoFamily& region) {
  return {.name = name,
          .summary = summary,
          .equation = equation,
          .source = "arXiv 2606.09821",
          .advantage = "group_mean",
          .aggregation = "seq_mean_token_sum_norm",
          .region = region};
}

}  // namespace

TokenDecision Spo::operator()(const LossInputs& p) const {
  const ClampedTensor ratio = importance_ratio(p);
  return quadratic_penalty(p, ratio, ratio.value - 1, eps);
}

TokenDecision Drpo::operator()(const LossInputs& p) const {
  // A KL divergence can be infinite. Clamped like a log-ratio, it still flips the sign of the weight.
  const auto clamped_divergence = [&](Divergence which) {
    return token_divergence(p, which, Anchor::kBehavior, support).value.clamp_max(kMaxLogRatio);
  };
  const Tensor distance = clamped_divergence(divergence);
  const Tensor binary =
      clamped_divergence(is_total_variation(divergence) ? Divergence::kBinaryTv : Divergence::kBinaryKl);
  const Tensor log_ratio = p.logp - p.behavior_logp;
  const Tensor relative_change = -at::expm1(-log_ratio.abs());  // |pi - mu|/max(pi, mu)
  const Tensor step = log_ratio.sign() * (binary + relative_change * (distance - binary).clamp_min(0));
  TokenDecision decision = quadratic_penalty(p, capped_ratio(p, ratio_cap), step, delta);
  // Even where pi = mu for the token, the rest of its distribution can have changed.
  decision.divergence = distance;
  decision.outside = distance > delta;
  return decision;
}

TokenDecision MaskDrpo::operator()(const LossInputs& p) const {
  const ClampedTensor ratio = capped_ratio(p, ratio_cap);
  TokenDecision decision = quadratic_penalty(p, ratio, probability_difference(p.logp, p.behavior_logp), delta);
  decision.coefficient = at::where(decision.outside, decision.coefficient, ratio.value * p.advantages);
  return decision;
}

TokenDecision DrpoNoAbsAdvantage::operator()(const LossInputs& p) const {
  const Tensor step = probability_difference(p.logp, p.behavior_logp), distance = step.abs();
  const auto [ratio, clamps] = capped_ratio(p, ratio_cap);
  return no_mask(p, {ratio * (p.advantages - step / delta), clamps}, distance, delta, distance > delta);
}

std::vector<MethodRow<DrpoFamily>> drpo_rows() {
  const std::string general =
      "g = min(r, ratio_cap) A (1 - sign(A) s/delta), s = sign(pi - mu) (B + c (D - B)), c = |pi - mu|/max(pi, mu), B "
      "the binary and D "
      "the ";
  std::vector<MethodRow<DrpoFamily>> rows{
      drpo_row("drpo", "A weight that falls linearly with the change of probability and changes sign at the boundary.",
               "g = min(r, ratio_cap) A (1 - sign(A)(pi - mu)/delta); nothing is blocked", Drpo{}),
      drpo_row("drpo_topk_tv", "DRPO with the total variation over the sampler's most likely tokens.",
               general + "TV over TopK(mu), the sampled token and the rest; nothing is blocked",
               Drpo{.divergence = Divergence::kTopKTv}),
      drpo_row("drpo_topk_kl", "DRPO with the KL divergence over the sampler's most likely tokens.",
               general + "KL(mu||pi) over TopK(mu), the sampled token and the rest; nothing is blocked",
               Drpo{.divergence = Divergence::kTopKKl}),
      drpo_row("drpo_full_tv", "DRPO with the exact total variation.", general + "full TV; nothing is blocked",
               Drpo{.divergence = Divergence::kFullTv}),
      drpo_row("drpo_full_kl", "DRPO with the exact KL divergence.", general + "full KL(mu||pi); nothing is blocked",
               Drpo{.divergence = Divergence::kFullKl}),
      drpo_row("mask_drpo", "The DRPO weight, but only outside the region.",
               "g = w A where |pi - mu| <= delta, w A (1 - sign(A)(pi - mu)/delta) beyond, w = min(r, ratio_cap); "
               "nothing is "
               "blocked",
               MaskDrpo{}),
      drpo_row("drpo_no_abs_advantage", "An ablation of DRPO: the penalty does not grow with the advantage.",
               "g = min(r, ratio_cap) (A - (pi - mu)/delta); nothing is blocked", DrpoNoAbsAdvantage{})};
  rows.push_back(drpo_row("spo", "A weight that falls linearly with the ratio and changes sign at the boundary.",
                          "g = r A (1 - sign(A)(r - 1)/eps); nothing is blocked", Spo{}));
  rows.back().source = "arXiv 2401.16025";
  return rows;
}

}  // namespace keel
