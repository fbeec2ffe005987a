#include "keel/train/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

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

TEST_F(HealthAlarms, WarnOfAThresholdBelowTheMismatch) {
  StepMetrics metrics = good_step();
  EXPECT_EQ(warn_of_masks_by_mismatch(metrics, config_), std::nullopt);
  metrics.tokens->masked_by_update = {0.04, 0.5};
  EXPECT_EQ(warn_of_masks_by_mismatch(metrics, config_), std::nullopt);
  metrics.tokens->masked_by_update = {0.375, 0.5};
  config_.objective.method = "gspo";
  EXPECT_THAT(warn_of_masks_by_mismatch(metrics, config_),
              testing::Optional(AllOf(HasSubstr("gspo masks 37.5 %"), HasSubstr("objective.anchor=recomputed"))));
  config_.rollout.staleness = 1;  // then it may be drift
  EXPECT_EQ(warn_of_masks_by_mismatch(metrics, config_), std::nullopt);
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
  for (const char* advantage : {"reinforce_pp", "batch_mean"}) {
    config_.objective.advantage = advantage;
    expect_no_alarm(bad);
  }
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

/// A step of 16 prompts with rewards from `lowest` to 1.
StepMetrics early_step(double mean, double lowest = 0, int64_t prompts = 16) {
  StepMetrics metrics = good_step();
  metrics.rollouts.reward_mean = mean;
  metrics.rollouts.reward_min = lowest;
  metrics.rollouts.reward_max = 1;
  metrics.rollouts.scored_prompts = prompts;
  return metrics;
}

/// The first step with an early alarm in these mean rewards, or 0.
int64_t early_alarm_step(const std::vector<double>& means, double lowest = 0, int64_t prompts = 16,
                         std::string* text = nullptr) {
  HealthCounts counts;
  for (size_t i = 0; i < means.size(); ++i)
    for (const std::string& alarm : health_alarms(early_step(means[i], lowest, prompts), {}, counts))
      if (alarm.find("less than half of that of the first") != std::string::npos) {
        if (text != nullptr) *text = alarm;
        return static_cast<int64_t>(i) + 1;
      }
  return 0;
}

/// `steps` rewards of 0.5, then of `fallen` up to step 60.
std::vector<double> fall_after(size_t steps, double fallen) {
  std::vector<double> means(60, fallen);
  std::fill_n(means.begin(), steps, 0.5);
  return means;
}

TEST(EarlyCollapse, IsNoticedWithinTenStepsOfTheFall) {
  // The first steps are 4, since these have 64 prompts. Windows end at steps 9, 14, 19, ...
  for (size_t good = 4; good <= 25; ++good) {
    const int64_t step = early_alarm_step(fall_after(good, 0.1));
    EXPECT_GT(step, static_cast<int64_t>(good));
    EXPECT_LE(step, static_cast<int64_t>(good) + 10);
  }
  // Also during the first steps: they have a mean of 0.275, of which 0.05 is less than half.
  EXPECT_EQ(early_alarm_step(fall_after(2, 0.05)), 9);
  // After the first update: the first 4 steps have a mean of 0.125, but the first step has 0.5.
  EXPECT_EQ(early_alarm_step(fall_after(1, 0)), 9);
  // 256 prompts in a step: the first step is the reference.
  EXPECT_EQ(early_alarm_step(fall_after(1, 0.1), 0, 256), 6);
}

// Wilson's intervals (scipy 1.17): 0.1 of 80 prompts, and 0.5 of 64.
TEST(EarlyCollapse, IsReportedWithItsIntervals) {
  std::string text;
  EXPECT_EQ(early_alarm_step(fall_after(4, 0.1), 0, 16, &text), 9);
  EXPECT_THAT(text, HasSubstr("the mean reward of the last 5 steps is 0.100 [0.052, 0.185], less than half of that of "
                              "the first 4 steps, 0.500 [0.381, 0.619] (95 % intervals)"));
}

TEST(EarlyCollapse, IsAFallBelowHalfAndBeyondTheIntervals) {
  EXPECT_EQ(early_alarm_step(fall_after(4, 0.26)), 0);
  // With 2 prompts in a step the intervals are those of 5 of 10 and 1 of 10: [0.237, 0.763] and [0.018, 0.404].
  EXPECT_EQ(early_alarm_step(fall_after(5, 0.1), 0, 2), 0);
  EXPECT_EQ(early_alarm_step(fall_after(4, 0.26), 0, 256), 0);
  // Half is measured from the lowest reward if it is negative: (0.5 + -1) / 2 = -0.25.
  EXPECT_EQ(early_alarm_step(fall_after(4, -0.2), -1), 0);
  EXPECT_EQ(early_alarm_step(fall_after(4, -0.4), -1), 9);
  EXPECT_EQ(early_alarm_step(std::vector<double>(60, 0.0)), 0);
  // A single alarm, and none of later falls, which windows of kAlarmSteps steps find.
  EXPECT_EQ(early_alarm_step(fall_after(41, 0)), 0);
}

/// The fraction of 500 simulated runs of 40 steps with an early alarm, though the policy is constant. `agreeing`: all 8
/// samples of a prompt have the same reward, else each is drawn on its own from the prompt's rate, uniform in
/// [0, 2 rate].
double early_alarm_rate(double rate, int64_t prompts, bool agreeing) {
  constexpr int kRuns = 500, kSamples = 8;
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform;
  int alarms = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> means(kEarlySteps);
    for (double& mean : means) {
      for (int64_t prompt = 0; prompt < prompts; ++prompt) {
        const double p = agreeing ? uniform(random) < rate : 2 * rate * uniform(random);
        for (int sample = 0; sample < kSamples; ++sample) mean += agreeing ? p : uniform(random) < p;
      }
      mean /= static_cast<double>(prompts * kSamples);
    }
    alarms += early_alarm_step(means, 0, prompts) > 0;
  }
  return alarms / static_cast<double>(kRuns);
}

TEST(EarlyCollapse, IsSeldomReportedForAConstantPolicy) {
  for (const int64_t prompts : {2, 8, 32})
    for (const double rate : {0.05, 0.1, 0.3, 0.5}) {
      EXPECT_LE(early_alarm_rate(rate, prompts, false), 0.002) << rate << " " << prompts;
      EXPECT_LE(early_alarm_rate(rate, prompts, true), 0.03) << rate << " " << prompts;
    }
}

TEST(EarlyCollapse, IsNoticedAlsoAfterTheCountsWereSavedAndRestored) {
  TrainState state;
  const std::vector<double> means = fall_after(7, 0.1);
  std::vector<size_t> alarms;
  for (size_t i = 0; i < 30; ++i) {
    state = state_from_json(to_json(state), "state.json");
    if (!health_alarms(early_step(means[i]), {}, state.rl.health).empty()) alarms.push_back(i + 1);
  }
  EXPECT_EQ(alarms, std::vector<size_t>{14});  // steps 5 to 9 have a mean of 0.34
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
