// The expected values are from statsmodels 0.14 (proportion_confint, method "wilson") and scipy 1.15 (stats.t).

#include "keel/evaluation/intervals.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "keel/evaluation/statistics.h"

namespace keel {
namespace {

void expect_near(const Interval& got, double low, double high, double tolerance = 1e-9) {
  EXPECT_NEAR(got.first, low, tolerance);
  EXPECT_NEAR(got.second, high, tolerance);
}

TEST(Moments, AreScaleInvariant) {
  // 2, 4, 4, 4, 5, 5, 7, 9: the mean is 5, the squares sum to 32.
  for (const double unit : {1.0, 0x1p-1070, 0x1p-600, 0x1p600, 0x1p1020}) {
    std::vector<double> values{2, 4, 4, 4, 5, 5, 7, 9};
    for (double& value : values) value *= unit;
    EXPECT_EQ(moments_of(values).mean, 5 * unit);
    EXPECT_NEAR(moments_of(values).deviation / unit, 2.138089935299395, unit < 1e-300 ? 0.2 : 1e-14);  // sqrt(32 / 7)
  }
  EXPECT_EQ(moments_of(std::vector<double>{0.3}).mean, 0.3);
  EXPECT_EQ(moments_of(std::vector<double>{0.3}).deviation, 0);
}

TEST(FractionInterval, IsWilsonsForPromptsThatAreRightOrWrong) {
  expect_near(fraction_interval(std::vector<double>(4, 1.0), 1), 0.5101091635454025, 1);
  expect_near(fraction_interval(std::vector<double>(4, 0.0), 1), 0, 0.4898908364545974);
  expect_near(fraction_interval(std::vector<double>{1}, 1), 0.2065493143772374, 1);
  std::vector<double> many(263, 0.0);
  std::fill_n(many.begin(), 81, 1.0);
  expect_near(fraction_interval(many, 1), 0.2552885198782742, 0.36620957698280004);
  // Equal samples of a prompt do not count as further trials.
  expect_near(fraction_interval(std::vector<double>(4, 1.0), 64), 0.5101091635454025, 1);
}

TEST(FractionInterval, UsesTheEffectiveTrialsFromTheSpreadOfThePrompts) {
  // 10.70 trials: p (1 - p) / (s^2 / m) (1.96 / t_7)^2 with p = 0.59375 and s^2 = 0.1183.
  expect_near(fraction_interval(std::vector<double>{0.5, 0.25, 1, 0.75, 0, 0.5, 1, 0.75}, 4), 0.3153564072000186,
              0.8226162278028417);
  // Limited to 11 trials, although the spread gives 11.76: 3 prompts with equal samples, and 8 samples of the fourth.
  expect_near(fraction_interval(std::vector<double>{1, 1, 1, 0.875}, 8), 0.6972347107422235, 0.9976093827252469);
}

TEST(FractionInterval, HasAWidthIfAllPromptsAgree) {
  // Equal and nearly equal fractions count all trials: 16 of 32.
  expect_near(fraction_interval(std::vector<double>(4, 0.5), 8), 0.33630882869327483, 0.6636911713067252);
  expect_near(fraction_interval(std::vector<double>{0.5, 0.5, 0.5, 0.5 + 1e-9}, 8), 0.33630882891647995,
              0.6636911715299305);
}

TEST(FractionInterval, IsContinuousBetweenEqualAndNearlyEqualPrompts) {
  // Five prompts and two trials each (pass@2 of four samples): four fractions of 1 and one of 5/6, compared with five
  // of 1.
  const Interval agree = fraction_interval(std::vector<double>(5, 1.0), 2),
                 nearly = fraction_interval(std::vector<double>{1, 1, 1, 1, 5.0 / 6}, 2);
  expect_near(agree, 0.5655175352168252, 1);
  EXPECT_NEAR(nearly.first, agree.first, 0.05);
}

TEST(MeanInterval, IsStudentsIfThereIsASpread) {
  const auto interval = mean_interval(std::vector<double>{0.25, 0.5, 1.5, -2});
  ASSERT_TRUE(interval);
  expect_near(*interval, -2.2881473841329396, 2.4131473841329396);
  // 1 +- 4.302652729749464 x 0.1 / sqrt(3).
  const auto large = mean_interval(std::vector<double>{0.9e308, 1e308, 1.1e308});
  ASSERT_TRUE(large);
  expect_near({large->first / 1e308, large->second / 1e308}, 0.751586228824967, 1.248413771175033);
  EXPECT_FALSE(mean_interval(std::vector<double>(9, 0.3)));
  EXPECT_FALSE(mean_interval(std::vector<double>{0.3}));
  EXPECT_FALSE(mean_interval({}));
}

TEST(StudentT, MatchesTheTables) {
  EXPECT_NEAR(student_t(1), 12.706204736174694, 1e-8);
  EXPECT_NEAR(student_t(5), 2.5705818356363146, 1e-8);
  EXPECT_NEAR(student_t(30), 2.0422724563012378, 1e-8);
  EXPECT_NEAR(student_t(31), 2.039513446396408, 2e-6);
  EXPECT_NEAR(student_t(60), 2.0002978220142604, 2e-6);
  EXPECT_NEAR(student_t(1000), 1.9623390808264083, 1e-9);
}

/// Creates prompts of one source from the rewards of their samples. A reward of at least 0.5 is solved.
std::vector<ScoredPrompt> prompts_with(const std::vector<std::vector<double>>& rewards) {
  std::vector<ScoredPrompt> prompts;
  for (const std::vector<double>& row : rewards) {
    ScoredPrompt& prompt = prompts.emplace_back(ScoredPrompt{"sums", {}});
    for (const double reward : row)
      prompt.samples.push_back({.reward = reward, .solved = reward >= 0.5, .answer = {"7", true}});
  }
  return prompts;
}

TEST(EvaluationIntervals, HaveAWidthForEveryMeasureIfAllPromptsAgree) {
  const std::vector<std::vector<double>> cases = {{1}, {0}, {1, 1, 1, 1}, {0, 0, 0, 0}, {1, 0, 1, 0}};
  for (const std::vector<double>& samples : cases) {
    const EvaluationStatistics statistics = evaluation_statistics(prompts_with(std::vector(4, samples)));
    for (const auto& [name, estimate] : statistics.all.measures) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(estimate.interval);
      EXPECT_GT(estimate.interval->second - estimate.interval->first, 0.4);  // four prompts
      EXPECT_LE(estimate.interval->first, estimate.mean + 1e-12);
      EXPECT_GE(estimate.interval->second, estimate.mean - 1e-12);
    }
  }
}

TEST(EvaluationIntervals, AreMissingForEqualRewardsOfUnknownRange) {
  const EvaluationStatistics statistics =
      evaluation_statistics(prompts_with(std::vector(4, std::vector{0.25, 0.25})));
  EXPECT_FALSE(statistics.all.measures[0].estimate.interval);  // avg@2: the range of the rewards is unknown
  EXPECT_TRUE(statistics.all.measures[1].estimate.interval);   // pass@1: solved or not
  const Json json = to_json(statistics.all);
  EXPECT_TRUE(json["avg@2"]["low"].is_null() && json["avg@2"]["high"].is_null());
  EXPECT_EQ(json["avg@2"]["mean"], 0.25);
  EXPECT_THAT(to_table(statistics), testing::HasSubstr("0.2500   none: all rewards are equal"));
}

Interval mean_reward_interval(const std::vector<std::vector<double>>& rewards) {
  return evaluation_statistics(prompts_with(rewards)).all.measures[0].estimate.interval.value();
}

TEST(EvaluationIntervals, AreThoseOfFractionsForRewardsWithTwoValues) {
  std::vector<std::vector<double>> rewards(96, {0.0});
  for (size_t i = 0; i < 3; ++i) rewards[i] = {1.0};
  expect_near(mean_reward_interval(rewards), 0.010684070371201171, 0.08788679324536978);  // 3 of 96
  // Of -1 and 1, the higher one in 1 of 4 prompts: twice the interval of 1 of 4, minus 1.
  expect_near(mean_reward_interval({{-1}, {1}, {-1}, {-1}}), -0.9088254783805989, 0.3987163148351962);
  // Samples of one prompt are clustered, as in FractionInterval.UsesTheEffectiveTrialsFromTheSpreadOfThePrompts: the
  // fractions of 2 are those, so that the interval is 3 times theirs, minus 1.
  expect_near(mean_reward_interval({{2, -1, -1, 2},
                                    {2, -1, -1, -1},
                                    {2, 2, 2, 2},
                                    {2, 2, 2, -1},
                                    {-1, -1, -1, -1},
                                    {2, -1, -1, 2},
                                    {2, 2, 2, 2},
                                    {2, 2, 2, -1}}),
              -0.05393077839994409, 1.4678486834085254);
  // Rewards that are all 0 or all 1 count as rewards of 0 and 1.
  expect_near(mean_reward_interval({{0, 0}, {0, 0}, {0, 0}, {0, 0}}), 0, 0.4898908364545974);
  expect_near(mean_reward_interval({{1}, {1}, {1}, {1}}), 0.5101091635454025, 1);
}

TEST(EvaluationIntervals, AreStudentsForRewardsWithOtherValues) {
  expect_near(mean_reward_interval({{0.25}, {0.5}, {1.5}, {-2}}), -2.2881473841329396, 2.4131473841329396);
  // Two prompts are too few to know the values of a reward: 0.5 +- 12.706204736174694 x 0.2.
  expect_near(mean_reward_interval({{0.3, 0.3}, {0.7, 0.7}}), -2.0412409472349388, 3.0412409472349388, 1e-6);
}

TEST(EvaluationIntervals, UseTheTwoValuesOfAllSources) {
  std::vector<ScoredPrompt> prompts = prompts_with({{-1}, {-1}, {-1}, {-1}, {1}});
  prompts.back().source = "words";
  // The source "sums" has no 1, but the other has: 0 of 4.
  expect_near(evaluation_statistics(prompts).sources[0].measures[0].estimate.interval.value(), -1,
              2 * 0.4898908364545974 - 1);
}

}  // namespace
}  // namespace keel
