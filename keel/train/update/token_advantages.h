#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/tensor/rollout.h"
#include "keel/objective/advantage.h"
#include "keel/objective/reference_kl.h"
#include "keel/train/update/critic_options.h"

namespace keel {

/// One vector over each rollout's trained tokens.
struct TokenAdvantages {
  std::vector<std::vector<float>> advantages;
  std::vector<std::vector<float>> returns;  // targets of the critic's values; empty without a critic
};

/// Computes advantages from rewards by group, or from rewards and the critic's values. With "gae" every token has its
/// own: its reward is the rollout's at the last token and 0 before, the value after the end is 0, truncated or not.
///
/// `penalties` are subtracted from the rewards: a rollout's reward loses their sum. With "gae" and "reinforce_pp",
/// whose returns are sums over the tokens that follow, each token's reward loses its own. `eps` is added to the
/// standard deviation that "grpo" divides by.
TokenAdvantages compute_advantages(const std::string& advantage, std::span<const Rollout> rollouts,
                                   const CriticOptions& critic, std::span<const std::vector<double>> penalties = {},
                                   double eps = kAdvantageEps);

/// What the KL to the reference takes off the rewards of a step's tokens.
struct RewardPenalty {
  std::vector<std::vector<double>> tokens;  // beta k of each token of each rollout
  double kl = 0;                            // mean over rollouts of the mean k of their tokens
  double coefficient = 0;                   // beta
};

/// From the log-probabilities before the step's updates (annotate()); nothing where beta is 0 or there is no rollout.
std::optional<RewardPenalty> reward_penalty(const RewardKlPenalty& kl, std::span<const Rollout> rollouts);

}  // namespace keel
