#pragma once

#include <optional>
#include <span>

#include "keel/core/tensor/rollout.h"
#include "keel/train/update/token_advantages.h"

namespace keel {

/// Rewards and lengths of the completions of a step.
struct RolloutMetrics {
  std::optional<double> reward_mean = {}, reward_std = {};  // of the rollouts with a reward, if any
  std::optional<double> reward_min = {}, reward_max = {};   // of the same rollouts
  int64_t scored_prompts = 0;                               // groups with a reward
  double zero_std_groups = 0;                               // fraction of the groups whose rewards are all equal
  double length_mean = 0, length_max = 0;                   // tokens
  double truncated = 0;                                     // fraction of the completions
};

/// Counts of dynamic sampling.
struct GroupMetrics {
  int64_t batches = 0, sampled = 0;
  int64_t dropped = 0;  // because their rewards are equal
  int64_t kept = 0;     // groups to train on
};

/// Returns whether all known rewards of a group are equal, so that a group advantage would be 0.
bool equal_rewards(std::span<const Rollout> group);

/// `rollouts` has groups of `group` consecutive completions of one prompt.
RolloutMetrics compute_rollout_metrics(std::span<const Rollout> rollouts, int64_t group);

int64_t token_count(std::span<const Rollout> rollouts);

/// Quality of the critic's values.
struct ValueMetrics {
  double value_mean = 0, return_mean = 0;
  std::optional<double> explained_variance = {};  // of the returns, if their variance is not 0
};

/// Returns nullopt without a critic.
std::optional<ValueMetrics> compute_value_metrics(std::span<const Rollout> rollouts, const TokenAdvantages& advantages);

}  // namespace keel
