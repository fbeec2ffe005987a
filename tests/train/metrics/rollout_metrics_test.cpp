#include "keel/train/metrics/rollout_metrics.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace keel {
namespace {

constexpr float kNone = std::numeric_limits<float>::infinity();  // no reward

std::vector<Rollout> rollouts_with(const std::vector<float>& rewards) {
  std::vector<Rollout> rollouts(rewards.size());
  for (size_t i = 0; i < rewards.size(); ++i) {
    rollouts[i].has_reward = rewards[i] != kNone;
    rollouts[i].reward = rollouts[i].has_reward ? rewards[i] : -9;
  }
  return rollouts;
}

// Three prompts of two samples; the second prompt has no reward.
TEST(RolloutMetrics, CoverOnlyCompletionsWithAReward) {
  const RolloutMetrics metrics = compute_rollout_metrics(rollouts_with({0.5, -1, kNone, kNone, 2, kNone}), 2);
  EXPECT_EQ(metrics.reward_mean, 0.5);
  EXPECT_EQ(metrics.reward_min, -1);
  EXPECT_EQ(metrics.reward_max, 2);
  EXPECT_EQ(metrics.scored_prompts, 2);
  const RolloutMetrics none = compute_rollout_metrics(rollouts_with({kNone, kNone}), 2);
  EXPECT_EQ(none.reward_min, std::nullopt);
  EXPECT_EQ(none.scored_prompts, 0);
}

}  // namespace
}  // namespace keel
