#include "keel/objective/regions/correction.h"

#include <ATen/ATen.h>

#include "keel/objective/regions/sequence_sums.h"

namespace keel {
namespace {

/// old/mu of each token, or of its whole sequence.
Clamped gap_of(const TokenPolicy& p, Level level) {
  const Tensor log_gap = p.old_logp - p.behavior_logp;
  if (level == Level::kToken) return ratio_from(log_gap);
  const Sequences sequences(p);
  const auto [gap, clamps] = ratio_from(sequences.sum(log_gap));
  return {sequences.spread(gap), clamps};
}

}  // namespace

TokenDecision MiniRl::operator()(const TokenPolicy& p) const {
  const auto [moved, moved_clamps] = ratio_of(p, Anchor::kRecomputed);
  const auto [weight, weight_clamps] = capped_ratio(p, ratio_cap);
  return hard_mask(p, {weight, weight_clamps + moved_clamps}, ratio_leaves(p.advantages, moved, low, high),
                   (moved - 1).abs(), by_sign(p.advantages, high, low));
}

TokenDecision Tis::operator()(const TokenPolicy& p) const {
  const auto [moved, moved_clamps] = ratio_of(p, Anchor::kRecomputed);
  const auto [gap, gap_clamps] = gap_of(p, level);
  return hard_mask(p, {gap.clamp_max(ratio_cap) * moved, gap_clamps + moved_clamps},
                   ratio_leaves(p.advantages, moved, low, high, dual), (moved - 1).abs(),
                   by_sign(p.advantages, high, low));
}

TokenDecision Mis::operator()(const TokenPolicy& p) const {
  const auto [moved, moved_clamps] = ratio_of(p, Anchor::kRecomputed);
  const auto [gap, gap_clamps] = gap_of(p, level);
  const Tensor mismatched = (gap < gap_low).logical_or(gap > gap_high);
  return hard_mask(p, {gap * moved, gap_clamps + moved_clamps},
                   mismatched.logical_or(ratio_leaves(p.advantages, moved, low, high)), (moved - 1).abs(),
                   by_sign(p.advantages, high, low));
}

std::vector<MethodRow<CorrectionFamily>> correction_rows() {
  const std::string minirl =
      "g = min(r, ratio_cap) A; blocked: A > 0 and pi/old > 1 + high, A < 0 and pi/old < 1 - low";
  const std::string clip = "; blocked: A > 0 and r' > 1 + high, A < 0 and r' < 1 - low";
  const std::string mis = "g = (old/mu) r' A, r' = pi/old" + clip + ", or old/mu outside [gap_low, gap_high]";
  return {{.name = "minirl",
           .sentence = "Importance weights to the sampler, the ratio clip against the recomputed policy.",
           .equation = minirl,
           .source = "arXiv 2602.04879, appendix C.1",
           .advantage = "group_mean",
           .aggregation = "seq_mean_token_sum_norm",
           .region = MiniRl{}},
          {.name = "minirl_tis",
           .sentence = "MiniRL with truncated importance weights.",
           .equation = minirl,
           .source = "arXiv 2602.04879, appendix C.1",
           .advantage = "group_mean",
           .aggregation = "seq_mean_token_sum_norm",
           .region = MiniRl{.ratio_cap = 3}},
          {.name = "tis",
           .sentence = "The ratio clip against the recomputed policy, times a truncated correction of the sampler.",
           .equation = "g = min(old/mu, ratio_cap) r' A, r' = pi/old" + clip + " or r' > dual",
           .source = "verl and TRL",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = Tis{}},
          {.name = "mis",
           .sentence = "The same with tokens (or sequences) left out whose correction is large, instead of truncation.",
           .equation = mis,
           .source = "TRL",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = Mis{.gap_low = 0, .gap_high = 3}},
          {.name = "icepop",
           .sentence = "The same with tokens left out whose correction is far from 1.",
           .equation = mis,
           .source = "arXiv 2510.18855; as verl writes it",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = Mis{}}};
}

}  // namespace keel
