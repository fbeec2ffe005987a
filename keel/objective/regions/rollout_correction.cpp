#include "keel/objective/regions/rollout_correction.h"

#include <ATen/ATen.h>

#include "keel/objective/regions/sequence_reducer.h"

namespace keel {
namespace {

/// old/mu of each token, or of its whole sequence.
ClampedTensor gap_of(const LossInputs& p, Level level) {
  const Tensor log_gap = p.old_logp - p.behavior_logp;
  if (level == Level::kToken) return clamped_exp(log_gap);
  const SequenceReducer sequences(p);
  const auto [gap, clamps] = clamped_exp(sequences.sum(log_gap));
  return {sequences.broadcast(gap), clamps};
}

}  // namespace

TokenDecision MiniRl::operator()(const LossInputs& p) const {
  const auto [moved, moved_clamps] = importance_ratio(p, Anchor::kRecomputed);
  const auto [weight, weight_clamps] = capped_ratio(p, ratio_cap);
  return hard_mask(p, {weight, weight_clamps + moved_clamps}, outside_ratio_clip(p.advantages, moved, low, high),
                   (moved - 1).abs(), by_advantage_sign(p.advantages, high, low));
}

TokenDecision Tis::operator()(const LossInputs& p) const {
  const auto [moved, moved_clamps] = importance_ratio(p, Anchor::kRecomputed);
  const auto [gap, gap_clamps] = gap_of(p, level);
  return hard_mask(p, {gap.clamp_max(ratio_cap) * moved, gap_clamps + moved_clamps},
                   outside_ratio_clip(p.advantages, moved, low, high, dual), (moved - 1).abs(),
                   by_advantage_sign(p.advantages, high, low));
}

TokenDecision Mis::operator()(const LossInputs& p) const {
  const auto [moved, moved_clamps] = importance_ratio(p, Anchor::kRecomputed);
  const auto [gap, gap_clamps] = gap_of(p, level);
  const Tensor mismatched = (gap < gap_low).logical_or(gap > gap_high);
  return hard_mask(p, {gap * moved, gap_clamps + moved_clamps},
                   mismatched.logical_or(outside_ratio_clip(p.advantages, moved, low, high)), (moved - 1).abs(),
                   by_advantage_sign(p.advantages, high, low));
}

std::vector<MethodRow<RolloutCorrectionFamily>> rollout_correction_rows() {
  const std::string minirl =
      "g = min(r, ratio_cap) A; blocked: A > 0 and pi/old > 1 + high, A < 0 and pi/old < 1 - low";
  const std::string clip = "; blocked: A > 0 and r' > 1 + high, A < 0 and r' < 1 - low";
  const std::string mis = "g = (old/mu) r' A, r' = pi/old" + clip + ", or old/mu outside [gap_low, gap_high]";
  return {{.name = "minirl",
           .summary = "Importance weights to the sampler, the ratio clip against the recomputed policy.",
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
           .summary = "The ratio clip against the recomputed policy, times a truncated correction of the sampler.",
           .equation = "g = min(old/mu, ratio_cap) r' A, r' = pi/old" + clip + " or r' > dual",
           .source = "verl and TRL",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = Tis{}},
          {.name = "mis",
           .summary = "The same with tokens (or sequences) left out whose correction is large, instead of truncation.",
           .equation = mis,
           .source = "TRL",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = Mis{.gap_low = 0, .gap_high = 3}},
          {.name = "icepop",
           .summary = "The same with tokens left out whose correction is far from 1.",
           .equation = mis,
           .source = "arXiv 2510.18855; as verl writes it",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = Mis{}}};
}

}  // namespace keel
