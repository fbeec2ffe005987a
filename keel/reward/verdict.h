#pragma once

// What an evaluation says of a completion: not how much it teaches, but whether it is right.

#include "keel/reward/reward_sum.h"

namespace keel {

constexpr double kSolvedThreshold = 0.5;

struct Verdict {
  std::optional<double> reward;  // the weighted sum but for penalties of training; nothing: who should judge did not
  bool solved = false;
  bool by_reward = false;  // no judge of answers applies: solved is what the whole reward makes it
  FinalAnswer answer;
};

/// Where functions that judge final answers apply, they alone decide: solved is what one of them finds worth
/// kSolvedThreshold, before its weight, and unscored what none of them judged. Elsewhere the sum decides. The answer is
/// read by the first of them, or, without one, as the math verifier reads it.
std::vector<Verdict> compute_verdicts(const RewardSum& reward, std::span<const RewardSample> samples,
                                      const RewardResult& result);

}  // namespace keel
