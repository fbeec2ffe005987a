#include "keel/record/report/health.h"

#include <gtest/gtest.h>

#include <functional>

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

TEST(Health, AllowsARisingReward) {
  const RunData run = run_of(100, [](int step, MetricRow& row) {
    row.values["reward/mean"] = step / 100.0;
    row.values["policy/entropy"] = 1.2 - step / 100.0;  // falls to a sixth
    row.values["trust_region/masked"] = 0.01 + 0.0003 * step;
    row.values["mismatch/abs_prob_mean"] = 1e-7 * (1 + step);
  });
  EXPECT_EQ(check_health(run).first(), nullptr);
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
