#pragma once

#include <span>
#include <string>
#include <vector>

#include "keel/core/tensor/rollout.h"
#include "keel/objective/advantage.h"
#include "keel/train/update/critic_options.h"

namespace keel {

/// What the tokens of a step's rollouts are worth: a vector over each rollout's trained tokens.
struct TokenWorth {
  std::vector<std::vector<float>> advantages;
  std::vector<std::vector<float>> returns;  // what the critic's values should have been; empty without a critic
};

/// Rewards by group, or rewards and the critic's values, become advantages. With "gae" every token has its own: its
/// reward is the rollout's at the last token and 0 before, the value after the end is 0, cut off or not.
///
/// `penalties` are taken off the rewards of the tokens: a rollout's reward loses their sum, but with "gae" and
/// "reinforce_pp", whose returns are sums over the tokens that follow, each token's own loses its own. `eps` is added
/// to the standard deviation that "grpo" divides by.
TokenWorth token_worth(const std::string& advantage, std::span<const Rollout> rollouts, const CriticOptions& critic,
                       std::span<const std::vector<double>> penalties = {}, double eps = kAdvantageEps);

}  // namespace keel
