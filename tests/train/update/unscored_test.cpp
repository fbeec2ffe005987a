#include "keel/train/update/minibatches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/core/files/file.h"
#include "tests/support/tensors.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

using testing::ElementsAre;

Rollout rollout(int64_t prompt, std::optional<double> reward, size_t tokens) {
  Rollout result;
  result.prompt = prompt;
  result.tokens.append(std::vector<int32_t>(tokens), /*are_trained=*/true);
  result.tokens.values.resize(tokens);
  result.reward = reward.value_or(0);
  result.has_reward = reward.has_value();
  return result;
}

/// Two groups, with two and with one scored completion.
std::vector<Rollout> partly_scored() {
  return {rollout(0, 1, 1),  rollout(0, std::nullopt, 5), rollout(0, 0, 1), rollout(0, std::nullopt, 2),
          rollout(1, {}, 3), rollout(1, {}, 1),           rollout(1, 2, 2), rollout(1, {}, 1)};
}

TEST(Unscored, AreRemovedAndTheOthersReindexed) {
  std::vector<Rollout> rollouts = partly_scored();
  const auto new_index = remove_unscored(rollouts);
  ASSERT_EQ(rollouts.size(), 3u);
  EXPECT_EQ(rollouts[2].reward, 2);
  EXPECT_THAT(new_index, ElementsAre(0, std::nullopt, 1, std::nullopt, std::nullopt, std::nullopt, 2, std::nullopt));
  EXPECT_THAT(remap_indices(std::vector<int64_t>{1, 2, 6}, new_index), ElementsAre(1, 2));
  EXPECT_THAT(remap_indices(std::vector<int64_t>{1, 3, 4}, new_index), ElementsAre());
}

TEST(Unscored, DoNotAffectMeansDeviationsAndCounts) {
  std::vector<Rollout> rollouts = partly_scored();
  remove_unscored(rollouts);
  const auto firsts = [&](const char* advantage) {
    std::vector<double> result;
    const CriticOptions critic{.body = "separate", .lambda = 1};
    for (const std::vector<float>& tokens : compute_advantages(advantage, rollouts, critic).advantages)
      result.push_back(tokens[0]);
    return result;
  };
  const auto near = [](double x) { return testing::DoubleNear(x, 1e-5); };
  EXPECT_THAT(firsts("group_mean"), ElementsAre(near(0.5), near(-0.5), near(0)));
  EXPECT_THAT(firsts("grpo"), ElementsAre(near(0.707106), near(-0.707106), near(0)));  // 0.5 / sqrt(0.5)
  EXPECT_THAT(firsts("rloo"), ElementsAre(near(1), near(-1), near(0)));
  // Tokens 1, 0, 2, 2: mean 1.25, squares 0.0625 + 1.5625 + 2 * 0.5625 = 2.75, / 3, root 0.957427.
  EXPECT_THAT(firsts("reinforce_pp"), ElementsAre(near(-0.261116), near(-1.305582), near(0.783349)));
  EXPECT_THAT(firsts("gae"), ElementsAre(near(-0.261116), near(-1.305582), near(0.783349)));  // the values are 0
  // 0.5, -0.5, 0, 0: mean 0, squares 0.5, / 3, root 0.408248.
  EXPECT_THAT(firsts("reinforce_pp_baseline"), ElementsAre(near(1.224745), near(-1.224745), near(0)));
}

class UnscoredStep : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(function_); }

  /// The row of a step with this reward function.
  Json step_with(const std::string& method, const std::string& function) {
    Config config = tiny_run(method);
    config.objective.entropy_coefficient = 0.1;  // also changes tokens without advantage
    function_ = config.run.dir + ".py";
    config.reward.functions = {"python:" + function_};
    write_atomically(function_, function);
    training_ = std::make_unique<TinyTraining>(config);
    before_ = copy_of(training_->model());
    return metrics_row(training_->step());
  }
  bool weights_changed() const {
    const std::vector<NamedTensor> now = training_->model().parameters(), then = before_->parameters();
    for (size_t i = 0; i < now.size(); ++i)
      if (!at::equal(now[i].value, then[i].value)) return true;
    return false;
  }

  std::string function_;
  std::unique_ptr<TinyTraining> training_;
  std::optional<ModelWeights> before_;
};

TEST_F(UnscoredStep, WithoutRewardsMakesNoUpdate) {
  for (const char* method : {"grpo", "ppo_gae", "cppo"}) {
    const Json row = step_with(method, "def reward(completions, **k): return [None] * len(completions)\n");
    EXPECT_FALSE(weights_changed()) << method;
    EXPECT_EQ(row.at("reward/unscored"), 12);
    EXPECT_EQ(row.at("reward/zero_std_groups"), 1);
    EXPECT_FALSE(row.contains("reward/mean")) << row;
    EXPECT_FALSE(row.contains("policy/entropy")) << row;
    EXPECT_FALSE(row.contains("certificate/bound")) << row;
    EXPECT_GT(row.at("completion/length_mean").get<double>(), 0);
  }
}

TEST_F(UnscoredStep, WithSomeRewardsEqualsTheStepOfThoseRollouts) {
  const Json row = step_with("grpo", "def reward(completions, **k): return [None, 1, 3, None]\n");
  EXPECT_TRUE(weights_changed());
  EXPECT_EQ(row.at("reward/unscored"), 6);
  EXPECT_EQ(row.at("reward/mean"), 2);
  EXPECT_NEAR(row.at("reward/std").get<double>(), std::sqrt(6.0 / 5), 1e-12);
  EXPECT_EQ(row.at("reward/zero_std_groups"), 0);
}

TEST_F(UnscoredStep, HasTheCertificateOfTheScoredRollouts) {
  // All scored rollouts have reward 1: no gain, and a reward range of width 0, which any other reward would widen.
  const Json row = step_with("grpo", "def reward(completions, **k): return [None, 1, 1, None]\n");
  EXPECT_TRUE(weights_changed());
  for (const char* name : {"gain", "max_penalty", "average_penalty", "bound", "improved"})
    EXPECT_EQ(row.at(std::string("certificate/") + name), 0) << row;
}

}  // namespace
}  // namespace keel
