#include "keel/objective/regions/ratio_clip.h"

#include <ATen/ATen.h>

namespace keel {

TokenDecision PpoClip::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = importance_ratio(p, anchor);
  return hard_mask(p, {ratio.clamp_max(ratio_cap), clamps}, is_clipped(p.advantages, ratio, low, high, dual),
                   (ratio - 1).abs(), by_sign(p.advantages, high, low));
}

TokenDecision RelaxedClip::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = importance_ratio(p);
  const Tensor rare = p.behavior_logp.exp() < alpha;
  const Tensor exempt = relaxed == Side::kBoth   ? rare
                        : relaxed == Side::kHigh ? rare.logical_and(p.advantages > 0)
                                                 : rare.logical_and(p.advantages < 0);
  const Tensor blocked = is_clipped(p.advantages, ratio, low, high).logical_and(exempt.logical_not());
  return hard_mask(p, {ratio.clamp_max(ratio_cap), clamps}, blocked, (ratio - 1).abs(),
                   by_sign(p.advantages, high, low).masked_fill(exempt, kUnlimited));
}

TokenDecision Aspo::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = importance_ratio(p);
  const Tensor weight = at::where(p.advantages > 0, ratio.reciprocal(), ratio).clamp_max(ratio_cap);
  return hard_mask(p, {weight, clamps}, is_clipped(p.advantages, ratio, low, high), (ratio - 1).abs(),
                   by_sign(p.advantages, high, low));
}

TokenDecision UpGrpo::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = importance_ratio(p);
  const Tensor weight = at::where(p.advantages > 0, at::ones_like(ratio), ratio.clamp_max(ratio_cap));
  return hard_mask(p, {weight, clamps}, is_clipped(p.advantages, ratio, low, kUnlimited, dual), (ratio - 1).abs(),
                   by_sign(p.advantages, kUnlimited, low));
}

TokenDecision IcePopDirect::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = importance_ratio(p);
  const Tensor blocked = (ratio < ratio_low).logical_or(ratio > ratio_high);
  // IcePop has no divergence: the ratio and its upper bound are reported instead.
  return hard_mask(p, {ratio.clamp_max(ratio_cap), clamps}, blocked, ratio, at::full_like(ratio, ratio_high));
}

namespace {

/// A method of the DPPO paper: Clip-Higher that does not clip rare tokens.
MethodRow<RatioClipFamily> relaxed_row(const std::string& name, const std::string& summary, const std::string& blocked,
                                       Side side) {
  return {.name = name,
          .summary = summary,
          .equation = "g = min(r, ratio_cap) A, r = pi/mu; blocked: " + blocked,
          .source = "arXiv 2602.04879, section 6",
          .advantage = "group_mean",
          .aggregation = "seq_mean_token_sum_norm",
          .region = RelaxedClip{.relaxed = side}};
}

}  // namespace

std::vector<MethodRow<RatioClipFamily>> ratio_clip_rows() {
  const std::string equation =
      "g = min(r, ratio_cap) A, r = pi/mu; blocked: A > 0 and r > 1 + high, A < 0 and r < 1 - low";
  const std::string with_dual = equation + " or r > dual";
  return {{.name = "grpo",
           .summary = "PPO's ratio clip with group advantages divided by their standard deviation.",
           .equation = with_dual,
           .source = "arXiv 2402.03300",
           .advantage = "grpo",
           .aggregation = "seq_mean_token_mean",
           .region = PpoClip{.low = 0.2, .high = 0.2}},
          {.name = "grpo_clip_higher",
           .summary = "The ratio clip with a wider upper bound, a baseline of the DPPO paper.",
           .equation = with_dual,
           .source = "arXiv 2503.14476; arXiv 2602.04879, appendix C.1",
           .advantage = "group_mean",
           .aggregation = "seq_mean_token_sum_norm",
           .region = PpoClip{.low = 0.2, .high = 0.28}},
          {.name = "dr_grpo",
           .summary = "The ratio clip without division by the standard deviation or by the length.",
           .equation = with_dual,
           .source = "arXiv 2503.20783",
           .advantage = "group_mean",
           .aggregation = "seq_mean_token_sum_norm",
           .region = PpoClip{.low = 0.2, .high = 0.2}},
          {.name = "dapo",
           .summary = "The ratio clip with a wider upper bound, averaged over all tokens of the update.",
           .equation = with_dual,
           .source = "arXiv 2503.14476",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = PpoClip{.low = 0.2, .high = 0.28}},
          {.name = "ppo",
           .summary = "PPO's ratio clip, averaged over all tokens of the update.",
           .equation = with_dual,
           .source = "arXiv 1707.06347; dual clip: arXiv 1912.09729",
           .advantage = "group_mean",
           .aggregation = "token_mean",
           .region = PpoClip{.low = 0.2, .high = 0.2}},
          {.name = "ppo_gae",
           .summary = "PPO with a critic: the ratio clip, and advantages from learned values.",
           .equation = with_dual,
           .source = "arXiv 1707.06347; advantages: arXiv 1506.02438; dual clip: arXiv 1912.09729",
           .advantage = "gae",
           .aggregation = "token_mean",
           .region = PpoClip{.low = 0.2, .high = 0.2}},
          relaxed_row("grpo_relax_high", "Clip-Higher that does not clip rare tokens with a positive advantage.",
                      "A > 0 and r > 1 + high, unless mu < alpha; A < 0 and r < 1 - low", Side::kHigh),
          relaxed_row("grpo_relax_low", "Clip-Higher that does not clip rare tokens with a negative advantage.",
                      "A > 0 and r > 1 + high; A < 0 and r < 1 - low, unless mu < alpha", Side::kLow),
          relaxed_row("grpo_relax_both", "Clip-Higher that does not clip rare tokens.",
                      "A > 0 and r > 1 + high, A < 0 and r < 1 - low, unless mu < alpha", Side::kBoth),
          {.name = "aspo",
           .summary = "The ratio clip with the inverse importance weight for positive advantages.",
           .equation = "g = min(1/r, ratio_cap) A (A > 0), min(r, ratio_cap) A (A < 0); blocked as by the ratio clip",
           .source = "arXiv 2510.06062, the authors' release",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = Aspo{}},
          {.name = "up_grpo",
           .summary = "The ratio clip for negative advantages only; positive ones have no importance weight.",
           .equation = "g = A (A > 0), min(r, ratio_cap) A (A <= 0); blocked: A < 0 and r < 1 - low or r > dual",
           .source = "arXiv 2607.06987, as contributed to verl",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = UpGrpo{}},
          {.name = "icepop_direct",
           .summary = "Blocks tokens whose ratio is outside a fixed interval, for both signs of the advantage.",
           .equation = "g = min(r, ratio_cap) A; blocked: r outside [ratio_low, ratio_high]",
           .source = "arXiv 2510.18855, in prime-rl's form",
           .advantage = "group_mean",
           .aggregation = "token_mean",
           .region = IcePopDirect{}}};
}

}  // namespace keel
