#include "keel/train/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/core/files/file.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "keel/train/run.h"
#include "tests/support/errors.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

StepMetrics good_step() {
  StepMetrics metrics;
  metrics.tokens = TokenMetrics{};
  metrics.tokens->entropy = 0.5;
  metrics.rollouts = {.reward_mean = 0.5, .reward_std = 0.5, .zero_std_groups = 0.25, .truncated = 0.5};
  return metrics;
}

class HealthAlarms : public testing::Test {
 protected:
  std::vector<std::string> after(const StepMetrics& metrics) { return health_alarms(metrics, config_, counts_); }
  /// Expects an alarm only after every kAlarmSteps consecutive steps.
  void expect_alarm(const StepMetrics& bad, const std::string& what) {
    for (int step = 1; step < kAlarmSteps; ++step) EXPECT_THAT(after(bad), IsEmpty());
    EXPECT_THAT(after(good_step()), IsEmpty());  // resets the count
    for (int step = 1; step <= 2 * kAlarmSteps; ++step) {
      if (step % kAlarmSteps == 0)
        EXPECT_THAT(after(bad), ElementsAre(AllOf(HasSubstr(what), HasSubstr(std::to_string(step) + " steps"))))
            << step;
      else
        EXPECT_THAT(after(bad), IsEmpty()) << step;
    }
  }

  void expect_no_alarm(const StepMetrics& bad) {
    for (int step = 0; step < kAlarmSteps; ++step) EXPECT_THAT(after(bad), IsEmpty());
  }

  Config config_;
  HealthCounts counts_;
};

TEST(MissingUpdate, IsExplainedIfAllCompletionsAreMasked) {
  StepMetrics metrics = good_step();
  EXPECT_EQ(explain_missing_update(metrics), std::nullopt);
  metrics.masked = 0.9;
  EXPECT_EQ(explain_missing_update(metrics), std::nullopt);
  metrics.masked = 1;
  EXPECT_THAT(explain_missing_update(metrics),
              testing::Optional(AllOf(HasSubstr("train.mask_truncated"), HasSubstr("raise rollout.max_new_tokens"))));
}

TEST_F(HealthAlarms, AreNotRaisedForGoodSteps) {
  for (int step = 0; step < 3 * kAlarmSteps; ++step) EXPECT_THAT(after(good_step()), IsEmpty());
}

TEST_F(HealthAlarms, WarnOfLowEntropy) {
  StepMetrics bad = good_step();
  bad.tokens->entropy = 0.009;  // below kMinEntropy
  expect_alarm(bad, "policy/entropy has been below 0.01 (0.009 now)");
}

TEST_F(HealthAlarms, WarnOfEqualRewards) {
  StepMetrics bad = good_step();
  bad.rollouts.zero_std_groups = 1;
  expect_alarm(bad, "all rewards of every prompt have been equal (mean 0.5 now)");
  config_.reference.kl_in_reward = 0.1;  // makes equal rewards differ
  expect_no_alarm(bad);
  config_.reference.kl_in_reward = 0;
  // These methods compare the rewards of different prompts.
  config_.objective.advantage = "reinforce_pp";
  expect_no_alarm(bad);
  config_.objective.advantage = std::nullopt;
  config_.critic.body = "separate";
  expect_no_alarm(bad);
  bad.rollouts.reward_std = 0;
  expect_alarm(bad, "all rewards of the step have been equal");
}

TEST_F(HealthAlarms, WarnOfTruncatedCompletions) {
  StepMetrics bad = good_step();
  bad.rollouts.truncated = 1;
  expect_alarm(bad, "every completion has been truncated");
}

TEST_F(HealthAlarms, WarnOfMismatch) {
  StepMetrics bad = good_step();
  bad.tokens->mismatch_mean = 0.011;
  expect_alarm(bad, "mismatch/abs_prob_mean has been above 0.01 (0.011 now)");
  config_.rollout.weights = "fp8";  // differs on purpose
  expect_no_alarm(bad);
}

TEST_F(HealthAlarms, WarnOfARewardCollapse) {
  const auto window = [&](double mean) {  // alternating around the mean
    std::vector<std::string> alarms;
    for (int step = 0; step < kAlarmSteps; ++step) {
      StepMetrics metrics = good_step();
      metrics.rollouts.reward_mean = mean + (step % 2 == 0 ? -0.125 : 0.125);
      for (const std::string& alarm : after(metrics)) alarms.push_back(alarm);
    }
    return alarms;
  };
  EXPECT_THAT(window(0.125), IsEmpty());
  EXPECT_THAT(window(0.5), IsEmpty());   // the best
  EXPECT_THAT(window(0.25), IsEmpty());  // half of it
  EXPECT_THAT(window(0.1875), ElementsAre(HasSubstr("the last 20 steps is 0.1875, less than 0.5 of the best, 0.5")));
  EXPECT_EQ(counts_.best_reward, 0.5);
  // Negative rewards have no fraction to compare.
  counts_ = {};
  EXPECT_THAT(window(-1), IsEmpty());
  EXPECT_THAT(window(-9), IsEmpty());
}

TEST(Run, SavesAndStopsOnAnAlarmAndKeepsCountingWhenResumed) {
  Config config = tiny_run("dppo_tv");
  config.eval.prompts = 0;
  config.train.steps = 2 * kAlarmSteps + 1;
  config.reward.functions = {"pattern:never"};  // all rewards are equal
  config.health.on_alarm = "stop";
  Console console(stderr);
  const auto log = [&] { return read_file(std::filesystem::path(config.run.dir) / "log.txt"); };
  const auto stops_at = [&](int64_t step, const std::function<void()>& run) {
    EXPECT_THAT(error_of(4, run),
                AllOf(HasSubstr("step " + std::to_string(step) + ": for " + std::to_string(step) + " steps in a row"),
                      HasSubstr("health.on_alarm"), HasSubstr("--resume")));
    EXPECT_TRUE(
        path_exists(std::filesystem::path(config.run.dir) / "checkpoints" / ("step-0000" + std::to_string(step))));
  };
  stops_at(20, [&] { Run::start(config, /*replace=*/true, console)->run(); });
  stops_at(40, [&] { Run::resume(config, console)->run(); });
  config.health.on_alarm = "warn";
  EXPECT_EQ(Run::resume(config, console)->run(), ExitCode::kDone);
  EXPECT_THAT(log(),
              AllOf(HasSubstr("step 20: for 20 steps in a row all rewards"), HasSubstr("step 40: for 40 steps")));
  remove_tree(config.run.dir);
}

}  // namespace
}  // namespace keel
