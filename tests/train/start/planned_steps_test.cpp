#include "keel/train/start/planned_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace keel {
namespace {

/// Ten rows, three of them without a prompt.
PromptSources seven_of_ten() {
  return PromptSources(PromptStream(
                           [](uint64_t index) -> std::variant<Prompt, SkippedRow> {
                             if (index % 10 == 2) return SkippedRow{SkippedRow::Why::kTooLong, "long"};
                             if (index % 10 >= 8) return SkippedRow{SkippedRow::Why::kOtherSplit, ""};
                             return Prompt{.id = index, .tokens = {1}, .text = "", .source = "", .answer = {}};
                           },
                           10),
                       RewardSum({}, {}));
}

Config planned(double epochs, int64_t prompts_per_step, int64_t steps = 0) {
  Config config;
  config.train.data_epochs = epochs;
  config.train.prompts_per_step = prompts_per_step;
  config.train.steps = steps;
  plan_steps(config, seven_of_ten());
  return config;
}

TEST(PlannedSteps, AreEpochsOverTheUsablePromptsRoundedUp) {
  EXPECT_EQ(planned(1, 7).train.steps, 1);
  EXPECT_EQ(planned(1, 3).train.steps, 3);    // 7 / 3
  EXPECT_EQ(planned(3, 3).train.steps, 7);    // 21 / 3: rounded up once, not per epoch
  EXPECT_EQ(planned(0.5, 2).train.steps, 2);  // 3.5 / 2
  EXPECT_EQ(planned(0.01, 7).train.steps, 1);
  EXPECT_EQ(planned(2, 4, /*steps=*/4).train.steps, 4);  // 14 / 4
}

TEST(PlannedSteps, ContradictingLengthsAreErrors) {
  const std::string other = error_of(2, [] { planned(2, 4, /*steps=*/5); });
  EXPECT_THAT(other, AllOf(HasSubstr("train.steps is 5"), HasSubstr("over 7 prompts gives 4 steps of 4")));
  Config config;
  config.train.data_epochs = 1;
  config.train.prompts_per_step = 7;
  config.train.steps = 0;
  config.critic.warmup_steps = 1;
  EXPECT_THAT(error_of(2, [&] { plan_steps(config, seven_of_ten()); }), HasSubstr("the policy would never be trained"));
}

TEST(PlannedSteps, EvaluationsHappenAtIntervalsAndAtTheEnd) {
  Config config;
  config.train.steps = 7;
  config.eval.every = 3;
  // Before the first step, and after 3, 6 and 7.
  const std::vector<int64_t> left = {3, 3, 3, 2, 2, 2, 1, 0, 0};
  for (int64_t done = 0; done <= 8; ++done) EXPECT_EQ(remaining_evaluations(config, done), left.at(done)) << done;
  config.train.steps = 6;
  EXPECT_EQ(remaining_evaluations(config, 0), 2);  // after 3, and after 6 once
  config.eval.every = 0;
  EXPECT_EQ(remaining_evaluations(config, 5), 1);
  config.eval.prompts = 0;
  EXPECT_EQ(remaining_evaluations(config, 0), 0);
  config = Config();
  config.train.steps = 0;
  EXPECT_EQ(remaining_evaluations(config, 0), 0);
}

}  // namespace
}  // namespace keel
