#pragma once

#include <optional>
#include <span>

#include "keel/core/tensor/rollout.h"
#include "keel/train/update/token_advantages.h"

namespace keel {

/// What the completions of a step alone say: rewards, lengths.
struct RolloutMetrics {
  std::optional<double> reward_mean = {}, reward_std = {};  // of those that were judged, where any was
  double zero_std_groups = 0;                               // share of the groups whose rewards are all equal
  double length_mean = 0, length_max = 0;                   // tokens
  double truncated = 0;                                     // share of the completions
};

/// What dynamic sampling did.
struct GroupMetrics {
  int64_t batches = 0, sampled = 0;
  int64_t dropped = 0;  // because their rewards are all equal
  int64_t kept = 0;     // for the step to learn from
};

/// Of those that were judged: nothing can be learned from comparing them.
bool equal_rewards(std::span<const Rollout> group);

/// `group` completions of one prompt lie side by side.
RolloutMetrics compute_rollout_metrics(std::span<const Rollout> rollouts, int64_t group);

int64_t token_count(std::span<const Rollout> rollouts);

/// How good the values were that the advantages were made from.
struct ValueMetrics {
  double value_mean = 0, return_mean = 0;
  std::optional<double> explained_variance = {};  // share of the returns' variance, where that is not 0
};

/// Nothing without a critic.
std::optional<ValueMetrics> compute_value_metrics(std::span<const Rollout> rollouts, const TokenAdvantages& advantages);

}  // namespace keel
