#pragma once

#include <optional>
#include <span>
#include <vector>

#include "keel/core/tensor/rollout.h"
#include "keel/objective/reference_kl.h"

namespace keel {

/// What the KL to the reference takes off the rewards of a step's tokens.
struct RewardPenalty {
  std::vector<std::vector<double>> tokens;  // beta k of each token of each rollout
  double kl = 0;                            // mean over rollouts of the mean k of their tokens
  double coefficient = 0;                   // beta
};

/// From the log-probabilities before the step's updates (annotate()); nothing where beta is 0 or there is no rollout.
std::optional<RewardPenalty> reward_penalty(const RewardKl& kl, std::span<const Rollout> rollouts);

}  // namespace keel
