#include "keel/train/update/minibatches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_training.h"

namespace keel {
namespace {

TEST(Truncated, AreOnlyExcludedFromTheUpdates) {
  std::vector<Rollout> rollouts(4);
  rollouts[1].finish = Finish::kLength;
  rollouts[2].finish = Finish::kStopString;
  rollouts[3].finish = Finish::kLength;
  std::vector<std::optional<int64_t>> new_index{0, std::nullopt, 1, 2, 3};
  EXPECT_EQ(mask_truncated_rollouts(rollouts, new_index), 0.5);
  EXPECT_THAT(new_index, testing::ElementsAre(0, std::nullopt, std::nullopt, 2, std::nullopt));
  EXPECT_EQ(mask_truncated_rollouts({}, {}), 0);
}

// As in TRL's mask_truncated_completions: advantages use all rewards, the loss uses the other tokens.
TEST(Truncated, AffectTheAdvantagesOfOthersButNoUpdate) {
  Config config = tiny_run("dppo_tv");
  config.rollout.max_new_tokens = 8;  // an untrained network stops at any token
  config.reward.functions = {"length:10"};
  TinyTraining plain(config);
  config.train.mask_truncated = true;
  TinyTraining masked(config);
  int64_t updated_tokens = 0, finished_tokens = 0;
  masked.when_decided = [&](const TokenUpdate& tokens) { updated_tokens += tokens.loss_inputs.logp.size(0); };
  const StepMetrics metrics = masked.step(), before = plain.step();
  for (const Rollout& rollout : masked.rollouts())
    if (rollout.finish != Finish::kLength) finished_tokens += static_cast<int64_t>(rollout.tokens.size());
  ASSERT_GT(before.rollouts.truncated, 0);
  ASSERT_LT(before.rollouts.truncated, 1);
  ASSERT_GT(before.rollouts.reward_std.value(), 0);
  EXPECT_EQ(metrics.masked, before.rollouts.truncated);
  EXPECT_EQ(before.masked, std::nullopt);
  EXPECT_EQ(masked.advantages(), plain.advantages());
  EXPECT_EQ(updated_tokens, finished_tokens * config.train.epochs);
  EXPECT_EQ(metrics.trained_tokens, static_cast<double>(updated_tokens));
  EXPECT_EQ(metrics_row(metrics).at("completion/masked"), before.rollouts.truncated);
}

TEST(Truncated, MakeNoUpdateIfAllAreTruncated) {
  Config config = tiny_run("dppo_tv");
  config.objective.entropy_coefficient = 0.1;  // a gradient for any rewards
  config.rollout.max_new_tokens = 1;
  config.train.mask_truncated = true;
  TinyTraining run(config, warm_model());
  EXPECT_EQ(run.step().masked, 1.0);
  EXPECT_EQ(run.state().updates, 0);
}

}  // namespace
}  // namespace keel
