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

/// One vector per rollout, over its trained tokens.
struct TokenAdvantages {
  std::vector<std::vector<float>> advantages;
  std::vector<std::vector<float>> returns;  // regression targets of the critic; empty without one
};

/// Computes advantages from the rewards of each group, or with "gae" from rewards and the critic's values. GAE puts the
/// reward at the last token and uses the value 0 after the end, even of truncated completions.
///
/// `penalties` [rollout][token] are subtracted from the rewards: per token with "gae" and "reinforce_pp", else their
/// sum from the rollout's reward. `eps` is added to the standard deviations that "grpo" and "gdpo" divide by.
TokenAdvantages compute_advantages(const std::string& advantage, std::span<const Rollout> rollouts,
                                   const CriticOptions& critic, std::span<const std::vector<double>> penalties = {},
                                   double eps = kAdvantageEps);

/// The reference-KL penalty in the rewards of a step.
struct RewardPenalty {
  std::vector<std::vector<double>> tokens;  // beta * KL estimate of each token of each rollout
  double kl = 0;                            // mean over rollouts of the mean KL estimate of their tokens
  double coefficient = 0;                   // beta
};

/// Uses the log-probs that annotate() added. Returns none if beta is 0 or there are no rollouts.
std::optional<RewardPenalty> reward_penalty(const RewardKlPenalty& kl, std::span<const Rollout> rollouts);

}  // namespace keel
