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

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

StepMetrics sound_step() {
  StepMetrics numbers;
  numbers.tokens = TokenMetrics{};
  numbers.tokens->entropy = 0.5;
  numbers.rollouts = {.reward_mean = 0.5, .reward_std = 0.5, .zero_std_groups = 0.25, .truncated = 0.5};
  return numbers;
}

class HealthAlarms : public testing::Test {
 protected:
  std::vector<std::string> after(const StepMetrics& numbers) { return health_alarms(numbers, config_, counts_); }
  /// That only the last of kAlarmSteps such steps in a row is told, and then of as many more.
  void expect_told(const StepMetrics& ill, const std::string& what) {
    for (int step = 1; step < kAlarmSteps; ++step) EXPECT_THAT(after(ill), IsEmpty());
    EXPECT_THAT(after(sound_step()), IsEmpty());  // counts from the start again
    for (int step = 1; step <= 2 * kAlarmSteps; ++step) {
      if (step % kAlarmSteps == 0)
        EXPECT_THAT(after(ill), ElementsAre(AllOf(HasSubstr(what), HasSubstr(std::to_string(step) + " steps"))))
            << step;
      else
        EXPECT_THAT(after(ill), IsEmpty()) << step;
    }
  }

  void expect_silence(const StepMetrics& ill) {
    for (int step = 0; step < kAlarmSteps; ++step) EXPECT_THAT(after(ill), IsEmpty());
  }

  Config config_;
  HealthCounts counts_;
};

TEST(NothingToLearn, WhereAllIsCutOffAndLeftOut) {
  StepMetrics numbers = sound_step();
  EXPECT_EQ(explain_missing_update(numbers), std::nullopt);
  numbers.masked = 0.9;
  EXPECT_EQ(explain_missing_update(numbers), std::nullopt);
  numbers.masked = 1;
  EXPECT_THAT(explain_missing_update(numbers),
              testing::Optional(AllOf(HasSubstr("train.mask_truncated"), HasSubstr("raise rollout.max_new_tokens"))));
}

TEST_F(HealthAlarms, SoundStepsGiveNone) {
  for (int step = 0; step < 3 * kAlarmSteps; ++step) EXPECT_THAT(after(sound_step()), IsEmpty());
}

TEST_F(HealthAlarms, TellOfAnEntropyThatStaysLow) {
  StepMetrics ill = sound_step();
  ill.tokens->entropy = 0.009;  // by default 0.01 is too low
  expect_told(ill, "policy/entropy has been below 0.01 (0.009 now)");
}

TEST_F(HealthAlarms, TellOfRewardsThatAreAllEqual) {
  StepMetrics ill = sound_step();
  ill.rollouts.zero_std_groups = 1;
  expect_told(ill, "all rewards of every prompt have been equal (mean 0.5 now)");
  config_.reference.kl_in_reward = 0.1;  // by which equal ones differ
  expect_silence(ill);
  config_.reference.kl_in_reward = 0;
  // These learn from rewards that differ between prompts.
  config_.objective.advantage = "reinforce_pp";
  expect_silence(ill);
  config_.objective.advantage = std::nullopt;
  config_.critic.body = "separate";
  expect_silence(ill);
  ill.rollouts.reward_std = 0;
  expect_told(ill, "all rewards of the step have been equal");
}

TEST_F(HealthAlarms, TellOfCompletionsThatAreAllCutOff) {
  StepMetrics ill = sound_step();
  ill.rollouts.truncated = 1;
  expect_told(ill, "every completion has been truncated");
}

TEST_F(HealthAlarms, TellOfASamplerThatIsNotTheTrainer) {
  StepMetrics ill = sound_step();
  ill.tokens->mismatch_mean = 0.011;
  expect_told(ill, "mismatch/abs_prob_mean has been above 0.01 (0.011 now)");
  config_.rollout.weights = "fp8";  // meant to differ
  expect_silence(ill);
}

TEST_F(HealthAlarms, TellOfARewardThatIsLostAgain) {
  const auto window = [&](double mean) {  // half of it below the mean, half above
    std::vector<std::string> told;
    for (int step = 0; step < kAlarmSteps; ++step) {
      StepMetrics numbers = sound_step();
      numbers.rollouts.reward_mean = mean + (step % 2 == 0 ? -0.125 : 0.125);
      for (const std::string& alarm : after(numbers)) told.push_back(alarm);
    }
    return told;
  };
  EXPECT_THAT(window(0.125), IsEmpty());
  EXPECT_THAT(window(0.5), IsEmpty());   // the best
  EXPECT_THAT(window(0.25), IsEmpty());  // half of it
  EXPECT_THAT(window(0.1875), ElementsAre(HasSubstr("the last 20 steps is 0.1875, less than 0.5 of the best, 0.5")));
  EXPECT_EQ(counts_.best_reward, 0.5);
  // Rewards below 0 have no shares.
  counts_ = {};
  EXPECT_THAT(window(-1), IsEmpty());
  EXPECT_THAT(window(-9), IsEmpty());
}

TEST(Run, StopsSavedOnAnAlarmWhenAskedToAndCountsOnWhenResumed) {
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
