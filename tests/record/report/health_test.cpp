#include "keel/record/report/health.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

namespace keel {
namespace {

RunData run_of(int steps, const std::function<void(int, MetricRow&)>& fill) {
  RunData run;
  for (int step = 1; step <= steps; ++step) {
    MetricRow row{"rl", step, {}};
    fill(step, row);
    run.metrics.push_back(std::move(row));
  }
  return run;
}

// 100 steps: the band is made from the first 20. Of 1, 2, 3, 4, 5 in turn the median is 3 and the median distance from
// it 1, so that the band ends at 3 + 6 * 1.4826 = 11.8956.
TEST(Health, UsesMedianAndMedianDeviationForTheBand) {
  const RunData run = run_of(100, [](int step, MetricRow& row) {
    row.values["optimizer/grad_norm"] = step == 30 || step == 31 || (step >= 70 && step < 80) ? 12 : 1 + (step - 1) % 5;
  });
  const Health health = check_health(run);
  EXPECT_EQ(health.steps, 100);
  EXPECT_EQ(health.baseline_steps, 20);
  const BandCheck* first = health.first();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->key, "optimizer/grad_norm");
  EXPECT_NEAR(first->departure->high, 11.8956, 1e-9);
  EXPECT_EQ(first->departure->step, 70);  // two consecutive steps, at 30, are not enough
  EXPECT_TRUE(first->departure->above);
  EXPECT_TRUE(first->departure->recovered);
}

TEST(Health, ReportsTheFirstMetricThatLeftItsBand) {
  const RunData run = run_of(200, [](int step, MetricRow& row) {
    row.values["optimizer/grad_norm"] = step >= 150 ? 100 : 1;
    row.values["policy/entropy"] = step >= 120 ? 5 : 1;
    row.values["reward/mean"] = step >= 160 ? 0.1 : step / 200.0;
  });
  const Health health = check_health(run);
  ASSERT_EQ(health.checks.size(), 3u);
  EXPECT_EQ(health.checks[0].key, "policy/entropy");
  EXPECT_EQ(health.checks[0].departure->step, 120);
  EXPECT_EQ(health.checks[1].key, "optimizer/grad_norm");
  EXPECT_EQ(health.checks[1].departure->step, 150);
  EXPECT_EQ(health.checks[2].key, "reward/mean");
  EXPECT_EQ(health.checks[2].departure->step, 160);
  EXPECT_NEAR(health.checks[2].departure->low, 0.785 / 2,
              1e-9);  // the best mean of five, of steps 155 to 159, is 157/200
  EXPECT_FALSE(health.checks[2].departure->recovered);
}

// A baseline of 10 steps, 5 of them after the fall: their median deviation would allow any reward.
TEST(Health, FindsAFallOfTheRewardWithinTheBaseline) {
  const RunData run = run_of(50, [](int step, MetricRow& row) { row.values["reward/mean"] = step >= 6 ? 0.1 : 0.4; });
  const BandCheck* first = check_health(run).first();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->departure->step, 6);
  EXPECT_NEAR(first->departure->low, 0.2, 1e-12);
}

// 0.5 and 0.1 in turn: the differences are 0.4, so that the band is 3 * 1.4826 * 0.4 / sqrt(2) = 1.26 wide.
TEST(Health, AllowsANoisyReward) {
  const RunData run =
      run_of(50, [](int step, MetricRow& row) { row.values["reward/mean"] = step % 8 < 4 && step % 2 ? 0.5 : 0.1; });
  EXPECT_EQ(check_health(run).first(), nullptr);
}

TEST(Health, AllowsARisingReward) {
  const RunData run = run_of(100, [](int step, MetricRow& row) {
    row.values["reward/mean"] = step / 100.0;
    row.values["policy/entropy"] = 1.2 - step / 100.0;  // falls to a sixth
    row.values["trust_region/masked"] = 0.01 + 0.0003 * step;
    row.values["mismatch/abs_prob_mean"] = 1e-7 * (1 + step);
  });
  EXPECT_EQ(check_health(run).first(), nullptr);
}

/// Ten RL steps after each evaluation; an evaluation is {mean, low, high}.
RunData run_with_evaluations(const std::vector<std::array<double, 3>>& evaluations) {
  RunData run;
  for (int step = 0; const auto& [mean, low, high] : evaluations) {
    run.metrics.push_back({"eval", step, {{"eval/accuracy", mean}, {"eval/low", low}, {"eval/high", high}}});
    for (int i = 0; i < 10; ++i) run.metrics.push_back({"rl", ++step, {{"reward/mean", 0.5}}});
  }
  return run;
}

TEST(Health, FindsAFallOfTheHeldOutScore) {
  RunData run =
      run_with_evaluations({{0.45, 0.41, 0.49}, {0.40, 0.36, 0.44}, {0.31, 0.27, 0.35}, {0.2, 0.17, 0.24}});
  const Health health = check_health(run);
  EXPECT_EQ(health.first(), nullptr);
  EXPECT_TRUE(health.has_warning());
  ASSERT_TRUE(health.evaluation_fall);  // the intervals at 0 and 10 overlap; those at 10 and 20 do not
  EXPECT_EQ(health.evaluation_fall->before.step, 10);
  EXPECT_EQ(health.evaluation_fall->after.step, 20);
  run.metrics[22].subset = "4 of 9 rows";  // other rows: compares none with this one
  EXPECT_FALSE(check_health(run).has_warning());
  const RunData none = run_with_evaluations({{1, 1, 1}, {0.31, 0.27, 0.35}});  // equal rewards have no interval
  EXPECT_FALSE(check_health(none).has_warning());
  EXPECT_FALSE(check_health(run_with_evaluations({{0.3, 0.2, 0.4}, {0.9, 0.8, 0.95}})).has_warning());
  EXPECT_TRUE(check_health(run_with_evaluations({{0.45, 0.41, 0.49}, {0, 0, 0}})).has_warning());
}

TEST(Health, FindsASlowFallOfTheHeldOutScoreFromItsBest) {
  const Health health = check_health(run_with_evaluations(
      {{0.8, 0.74, 0.85}, {0.9, 0.84, 0.95}, {0.84, 0.77, 0.9}, {0.77, 0.69, 0.83}, {0.69, 0.6, 0.76}}));
  ASSERT_TRUE(health.evaluation_fall);
  EXPECT_EQ(health.evaluation_fall->before.step, 10);
  EXPECT_EQ(health.evaluation_fall->after.step, 30);
}

TEST(Health, NeedsEnoughSteps) {
  const RunData run = run_of(19, [](int, MetricRow& row) { row.values["reward/mean"] = 1; });
  EXPECT_EQ(check_health(run).baseline_steps, 0);
  EXPECT_TRUE(check_health(run).checks.empty());
  // A metric that starts late has too few steps, too.
  const RunData late = run_of(300, [](int step, MetricRow& row) {
    if (step > 290) row.values["optimizer/grad_norm"] = step;
  });
  EXPECT_TRUE(check_health(late).checks.empty());
}

}  // namespace
}  // namespace keel
