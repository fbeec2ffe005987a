#pragma once

// Whether an evaluation counts a completion as solved.

#include "keel/reward/reward_sum.h"

namespace keel {

constexpr double kSolvedThreshold = 0.5;

struct Verdict {
  std::optional<double> reward;  // the weighted sum without length penalties; std::nullopt: unscored
  bool solved = false;
  bool by_reward = false;  // no function scores final answers, so `reward` decides `solved`
  FinalAnswer answer;
};

/// Functions that check final answers and apply to the prompt's source decide. Solved: one of their unweighted rewards
/// is at least kSolvedThreshold. Unscored: none gave a reward. Without such a function, the weighted sum decides. The
/// first such function also extracts the answer; without one, the math verifier does.
std::vector<Verdict> compute_verdicts(const RewardSum& reward, std::span<const RewardSample> samples,
                                      const RewardResult& result);

}  // namespace keel
