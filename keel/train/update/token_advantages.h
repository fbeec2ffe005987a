#pragma once

#include <span>
#include <string>
#include <vector>

#include "keel/core/tensor/rollout.h"
#include "keel/objective/advantage.h"
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

}  // namespace keel
