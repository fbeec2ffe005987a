#include <ATen/ATen.h>

#include "keel/objective/divergence.h"
#include "keel/objective/methods.h"

namespace keel {

TokenDecision PpoClip::operator()(const TokenPolicy& p) const {
  const Tensor ratio = probability_ratio(p.logp, p.behavior_logp);
  const Tensor blocked = at::where(p.advantages > 0, ratio > 1 + high, (p.advantages < 0).logical_and(ratio < 1 - low));
  return hard_mask(p, blocked, kUnlimited, (ratio - 1).abs(), by_sign(p.advantages, high, low));
}

std::vector<Method> ratio_clip_rows() {
  const std::string equation = "g = r A, r = pi/mu; blocked: A > 0 and r > 1 + high, A < 0 and r < 1 - low";
  return {{.name = "grpo",
           .sentence = "PPO's ratio clip with group advantages divided by their standard deviation.",
           .equation = equation,
           .source = "arXiv 2402.03300",
           .advantage = "grpo",
           .aggregation = "seq_mean_token_mean",
           .region = PpoClip{.low = 0.2, .high = 0.2}},
          {.name = "grpo_clip_higher",
           .sentence = "The ratio clip with a wider upper bound, as the DPPO paper compares with.",
           .equation = equation,
           .source = "arXiv 2503.14476; arXiv 2602.04879, appendix C.1",
           .advantage = "group_mean",
           .aggregation = "seq_mean_token_sum_norm",
           .region = PpoClip{.low = 0.2, .high = 0.28}}};
}

}  // namespace keel
