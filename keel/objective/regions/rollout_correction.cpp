#include "keel/objective/regions/rollout_correction.h"

#include <ATen/ATen.h>

#include "keel/objective/regions/sequence_reducer.h"

namespace keel {
namespace {

/// old/mu of each token or, at sequence level, of its sequence.
ClampedTensor mismatch_ratio(const LossInputs& p, Level level) {
  const Tensor log_mismatch = p.old_logp - p.behavior_logp;
  if (level == Level::kToken) return clamped_exp(log_mismatch);
  const SequenceReducer sequences(p);
  const auto [mismatch, clamps] = clamped_exp(sequences.sum(log_mismatch));
  return {sequences.broadcast(mismatch), clamps};
}

}  // namespace

TokenDecision MiniRl::operator()(const LossInputs& p) const {
  const auto [policy_ratio, policy_clamps] = importance_ratio(p, Anchor::kRecomputed);
  const auto [weight, weight_clamps] = capped_ratio(p, ratio_cap);
  return hard_mask(p, {weight, weight_clamps + policy_clamps}, is_clipped(p.advantages, policy_ratio, low, high),
                   (policy_ratio - 1).abs(), by_sign(p.advantages, high, low));
}

TokenDecision Tis::operator()(const LossInputs& p) const {
  const auto [policy_ratio, policy_clamps] = importance_ratio(p, Anchor::kRecomputed);
  const auto [mismatch, mismatch_clamps] = mismatch_ratio(p, level);
  return hard_mask(p, {mismatch.clamp_max(ratio_cap) * policy_ratio, mismatch_clamps + policy_clamps},
                   is_clipped(p.advantages, policy_ratio, low, high, dual), (policy_ratio - 1).abs(),
                   by_sign(p.advantages, high, low));
}

TokenDecision Mis::operator()(const LossInputs& p) const {
  const auto [policy_ratio, policy_clamps] = importance_ratio(p, Anchor::kRecomputed);
  const auto [mismatch, mismatch_clamps] = mismatch_ratio(p, level);
  const Tensor out_of_bounds = (mismatch < gap_low).logical_or(mismatch > gap_high);
  return hard_mask(p, {mismatch * policy_ratio, mismatch_clamps + policy_clamps},
                   out_of_bounds.logical_or(is_clipped(p.advantages, policy_ratio, low, high)),
                   (policy_ratio - 1).abs(), by_sign(p.advantages, high, low));
}

TokenDecision OpenRlhf::operator()(const LossInputs& p) const {
  const auto [policy_ratio, policy_clamps] = importance_ratio(p, Anchor::kRecomputed);
  const Tensor log_ratio = p.old_logp - p.behavior_logp;
  auto [weight, clamps] = clamped_exp(log_ratio);
  const auto over_level = [&](const Tensor& tokens) {
    if (level == Level::kToken) return tokens;
    const SequenceReducer sequences(p);
    return sequences.broadcast(sequences.mean(tokens));
  };
  Tensor blocked = is_clipped(p.advantages, policy_ratio, low, high, dual);
  if (mode == GateMode::kClip) {
    weight = weight.clamp(gate_low, gate_high);
  } else {
    const Tensor measured = measure == GateMeasure::kRatio      ? clamped_exp(over_level(log_ratio)).value
                            : measure == GateMeasure::kBinaryKl ? over_level(binary_kl(p.old_logp, p.behavior_logp))
                                                                : over_level(binary_tv(p.old_logp, p.behavior_logp));
    blocked = blocked.logical_or(measured < gate_low).logical_or(measured > gate_high);
  }
  return hard_mask(p, {weight * policy_ratio, clamps + policy_clamps}, blocked, (policy_ratio - 1).abs(),
                   by_sign(p.advantages, high, low));
}

std::optional<InvalidParameter> OpenRlhf::check_parameters() const {
  if (mode == GateMode::kClip && (measure != GateMeasure::kRatio || level != Level::kToken))
    return invalid_parameter("mode", "mode",
                             " is clip, but only the ratio of a token can be clipped; expected the mode mask, or the "
                             "measure ratio and the level token");
  if (measure != GateMeasure::kRatio && gate_low > 0)
    return invalid_parameter(
        "gate_low", "gate_low",
        str_cat(" is ", gate_low,
                ", a bound of the ratio; the divergence of most tokens is near 0, so "
                "almost all would be blocked; expected 0, and in gate_high the largest divergence"));
  return check_bounds("gate_low", gate_low, "gate_high", gate_high);
}

std::vector<MethodRow<RolloutCorrectionFamily>> rollout_correction_rows() {
  const std::string minirl =
      "g = min(r, ratio_cap) A; blocked: A > 0 and pi/old > 1 + high, A < 0 and pi/old < 1 - low";
  const std::string clip = "; blocked: A > 0 and r' > 1 + high, A < 0 and r' < 1 - low";
  const std::string mis = "g = (old/mu) r' A, r' = pi/old" + clip + ", or old/mu outside [gap_low, gap_high]";
  return {
      {.name = "minirl",
       .summary = "Importance weights pi/mu, with the ratio clip on pi/old (old: recomputed at the sampling weights).",
       .equation = minirl,
       .source = "arXiv 2602.04879, appendix C.1",
       .advantage = "group_mean",
       .aggregation = "seq_mean_token_sum_norm",
       .region = MiniRl{}},
      {.name = "minirl_tis",
       .summary = "MiniRL with truncated importance weights.",
       .equation = minirl,
       .source = "arXiv 2602.04879, appendix C.1",
       .advantage = "group_mean",
       .aggregation = "seq_mean_token_sum_norm",
       .region = MiniRl{.ratio_cap = 3}},
      {.name = "tis",
       .summary = "The ratio clip on pi/old, times the truncated mismatch weight old/mu of the sampler.",
       .equation = "g = min(old/mu, ratio_cap) r' A, r' = pi/old" + clip + " or r' > dual",
       .source = "verl and TRL",
       .advantage = "grpo",
       .aggregation = "token_mean",
       .region = Tis{}},
      {.name = "mis",
       .summary = "As tis, but tokens (or sequences) with a large old/mu are blocked instead of truncated.",
       .equation = mis,
       .source = "TRL",
       .advantage = "grpo",
       .aggregation = "token_mean",
       .region = Mis{.gap_low = 0, .gap_high = 3}},
      {.name = "icepop",
       .summary = "As tis, but tokens with old/mu outside an interval around 1 are blocked.",
       .equation = mis,
       .source = "arXiv 2510.18855; as verl writes it",
       .advantage = "grpo",
       .aggregation = "token_mean",
       .region = Mis{}},
      {.name = "openrlhf",
       .summary = "The ratio clip on pi/old, times old/mu, with a gate on the ratio, binary KL or TV of old from mu.",
       .equation = "g = (old/mu) r' A, r' = pi/old" + clip +
                   " or r' > dual, or the measure outside [gate_low, gate_high]; the mode clip clips old/mu instead",
       .source = "OpenRLHF",
       .advantage = "grpo",
       .aggregation = "token_mean",
       .region = OpenRlhf{}}};
}

}  // namespace keel
