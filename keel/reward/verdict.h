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

/// If functions that score final answers apply, they decide: solved if one of them gives at least kSolvedThreshold
/// before its weight, unscored if none gives a reward. Otherwise the weighted sum decides. The first of these functions
/// extracts the answer; without one, the math verifier does.
std::vector<Verdict> compute_verdicts(const RewardSum& reward, std::span<const RewardSample> samples,
                                      const RewardResult& result);

}  // namespace keel
