#include "keel/objective/adaptive_thresholds.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tiny_training.h"

namespace keel {
namespace {

Objective adaptive(double target, double low, double high) {
  ObjectiveOptions options{.method = "dppo_kl", .delta_low = low, .delta_high = high};  // a KL threshold may exceed 1
  options.parameters = {"target_kept=" + std::to_string(target)};
  return make_objective(options, 1);
}

TEST(AdaptiveThresholds, ScaleByTheErrorOfTheKeptFraction) {
  const Objective objective = adaptive(0.9, 0.1, 0.2);
  // The kept fraction is 5 % too high, so both shrink by exp(-0.05).
  const Thresholds next = adapt_thresholds(objective, {0.1, 0.2}, 0.95);
  EXPECT_NEAR(next.low, 0.1 * 0.951229424500714, 1e-15);
  EXPECT_NEAR(next.high, 0.2 * 0.951229424500714, 1e-15);
  const Thresholds same = adapt_thresholds(objective, {0.1, 0.2}, 0.9);
  EXPECT_EQ(same.low, 0.1);
  EXPECT_EQ(same.high, 0.2);
}

TEST(AdaptiveThresholds, StayWithinBoundsThatIncludeTheStart) {
  EXPECT_EQ(adapt_thresholds(adaptive(0.01, 2e-4, 0.5), {2e-4, 0.5}, 1).low, 1e-4);
  EXPECT_EQ(adapt_thresholds(adaptive(1, 0.5, 3), {0.5, 3}, 0).low, 1);
  EXPECT_EQ(adapt_thresholds(adaptive(1, 0.5, 3), {0.5, 3}, 0).high, 3);         // started above 1
  EXPECT_EQ(adapt_thresholds(adaptive(0.01, 1e-5, 3), {1e-5, 3}, 1).low, 1e-5);  // started below 1e-4
  EXPECT_EQ(adapt_thresholds(adaptive(0.5, 1e-5, 3), {1e-5, 3}, 0.5).high, 3);   // does not jump
}

TEST(AdaptiveThresholds, FollowTheKeptFractionOfATrainer) {
  Config config = tiny_run("dppo_tv");
  config.objective.parameters = {"target_kept=0.5"};
  config.objective.delta_high = 0.3;
  TinyTraining run(config, warm_model());
  double low = 0.2, high = 0.3;
  bool blocked = false;
  for (int step = 0; step < 4; ++step) {
    const StepMetrics& metrics = run.step();
    EXPECT_NEAR(metrics.thresholds.value().low, low, 1e-12);
    EXPECT_NEAR(metrics.thresholds.value().high, high, 1e-12);
    const double masked = metrics.tokens.value().masked;
    blocked = blocked || masked > 0;
    low *= std::exp(0.5 - (1 - masked));
    high *= std::exp(0.5 - (1 - masked));
  }
  EXPECT_TRUE(blocked);
  EXPECT_NEAR(run.state().rl.thresholds.value().low, low, 1e-12);  // a resumed run continues from it
}

TEST(AdaptiveThresholds, DoNotReachTheirBoundBecauseOfConfidentTokens) {
  // For half of the tokens log pi rounds to 0 although log mu is -1e-9; the divergences of the others are spread.
  const Tensor mu = at::full({10}, 0.5, at::kDouble), pi = mu + at::arange(1, 11, at::kDouble) * 0.02;
  const auto with = [](const Tensor& ordinary, double sure) {
    return at::cat({ordinary, at::full({10}, sure, at::kDouble)}).to(at::kFloat);
  };
  LossInputs policy{with(pi.log(), 0), with(mu.log(), -1e-9), at::ones({20})};
  const auto settled = [&] {
    Objective objective = adaptive(0.9, 0.05, 0.05);
    for (int step = 0; step < 2000; ++step) {
      const Tensor outside = token_coefficients(objective.method.region, policy).outside;
      set_thresholds(objective,
                     adapt_thresholds(objective, {0.05, 0.05}, 1 - outside.to(at::kDouble).mean().item<double>()));
    }
    return get_thresholds(objective.method.region).high;
  };
  EXPECT_EQ(settled(), 1);  // without other_logp the divergence of these tokens is infinite
  policy.other_logp = with((1 - pi).log(), std::log(0.9e-9));
  policy.behavior_other_logp = with((1 - mu).log(), std::log(1e-9));
  // The target is two of twenty outside: between the eighth and the ninth divergence.
  const auto kl = [](double p) { return 0.5 * std::log(0.5 / p) + 0.5 * std::log(0.5 / (1 - p)); };
  EXPECT_GT(settled(), kl(0.66) * 0.9);
  EXPECT_LT(settled(), kl(0.68) * 1.1);
}

TEST(AdaptiveThresholds, AreUsedByTheRegion) {
  Objective objective = adaptive(0.9, 0.1, 0.2);
  set_thresholds(objective, {0.01, 0.02});
  EXPECT_EQ(std::get<Dppo>(objective.method.region).low, 0.01);
  EXPECT_EQ(std::get<Dppo>(objective.method.region).high, 0.02);
  EXPECT_EQ(get_thresholds(objective.method.region).high, 0.02);
}

}  // namespace
}  // namespace keel
