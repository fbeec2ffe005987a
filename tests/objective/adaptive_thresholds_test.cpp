#include "keel/objective/adaptive_thresholds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/errors.h"

namespace keel {
namespace {

TEST(AdaptDelta, MultipliesByTheExponentialOfTheErrorTimesTheRate) {
  const AdaptOptions options{.rate = 2, .min = 1e-3, .max = 10};
  EXPECT_NEAR(adapt_delta(0.1, 0.9, 0.95, options), 0.11051709180756477, 1e-15);   // 0.1 e^0.1
  EXPECT_NEAR(adapt_delta(0.1, 0.95, 0.9, options), 0.090483741803595957, 1e-15);  // 0.1 e^-0.1
  EXPECT_NEAR(adapt_delta(0.5, 0.0, 1.0, options), 3.6945280494653251, 1e-14);     // 0.5 e^2
  EXPECT_NEAR(adapt_delta(0.5, 1.0, 0.0, options), 0.067667641618306337, 1e-15);   // 0.5 e^-2
}

TEST(AdaptDelta, ReturnsTheSameBitsAtTheTarget) {
  for (const double delta : {1e-4, 0.05, 0.15, 1.0 / 3, 1.0})
    for (const double share : {0.0, 0.1, 0.95, 1.0}) EXPECT_EQ(adapt_delta(delta, share, share), delta);
}

TEST(AdaptDelta, KeepsTheThresholdWithoutValidTokens) {
  EXPECT_EQ(adapt_delta(0.15, std::numeric_limits<double>::quiet_NaN(), 0.9), 0.15);
}

TEST(AdaptDelta, StaysWithinItsBounds) {
  const AdaptOptions options{.rate = 5, .min = 0.01, .max = 0.5};
  EXPECT_EQ(adapt_delta(0.4, 0, 1, options), 0.5);
  EXPECT_EQ(adapt_delta(0.02, 1, 0, options), 0.01);
  EXPECT_EQ(adapt_delta(7, 0.9, 0.9, options), 0.5);
  EXPECT_EQ(adapt_delta(1e-9, 0.9, 0.9, options), 0.01);
}

TEST(AdaptDelta, IsMonotonicInThresholdTargetAndObservation) {
  const AdaptOptions options{.rate = 1.5, .min = 0.02, .max = 0.6};
  const std::vector<double> deltas{0.02, 0.05, 0.1, 0.3, 0.6}, shares{0, 0.25, 0.5, 0.75, 1};
  int rose = 0, fell = 0, grew = 0;
  for (const double delta : deltas) {
    for (const double share : shares) {
      for (const double target : shares) {
        const double here = adapt_delta(delta, share, target, options);
        const double more_kept = adapt_delta(delta, share + 0.1, target, options);
        const double more_wanted = adapt_delta(delta, share, target + 0.1, options);
        const double from_above = adapt_delta(delta * 1.1, share, target, options);
        EXPECT_LE(more_kept, here);
        EXPECT_GE(more_wanted, here);
        EXPECT_GE(from_above, here);
        fell += more_kept < here;
        rose += more_wanted > here;
        grew += from_above > here;
      }
    }
  }
  EXPECT_GT(std::min({rose, fell, grew}), 50) << "most of these steps must not end at a bound";
}

TEST(AdaptDelta, ConvergesToTheTargetForSmoothResponses) {
  const std::vector<std::function<double(double)>> plants{
      [](double delta) { return 1 - std::exp(-delta / 0.05); },         // exponential divergences
      [](double delta) { return delta / (delta + 0.01); },              // heavy tails
      [](double delta) { return 1 / (1 + std::pow(0.1 / delta, 3)); },  // a steep step at 0.1
  };
  for (size_t plant = 0; plant < plants.size(); ++plant) {
    for (const double target : {0.5, 0.8, 0.9}) {
      for (const double start : {1e-3, 0.15, 0.9}) {
        SCOPED_TRACE(std::to_string(plant) + " " + std::to_string(target) + " " + std::to_string(start));
        double delta = start;
        EXPECT_GT(std::abs(plants[plant](delta) - target), 1e-3);
        for (int step = 0; step < 400; ++step) delta = adapt_delta(delta, plants[plant](delta), target);
        EXPECT_NEAR(plants[plant](delta), target, 1e-6);
      }
    }
  }
}

TEST(AdaptDelta, EndsAtABoundIfTheTargetIsUnreachable) {
  const AdaptOptions options{.rate = 1, .min = 0.01, .max = 0.3};
  double up = 0.05, down = 0.05;
  for (int step = 0; step < 100; ++step) {
    up = adapt_delta(up, 0.5, 0.9, options);
    down = adapt_delta(down, 0.99, 0.9, options);
  }
  EXPECT_EQ(up, 0.3);
  EXPECT_EQ(down, 0.01);
}

TEST(AdaptDelta, RejectsInvalidOptions) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const AdaptOptions& options : {AdaptOptions{-1, 0.1, 1}, AdaptOptions{1, 0, 1}, AdaptOptions{1, 0.5, 0.1},
                                      AdaptOptions{nan, 0.1, 1}, AdaptOptions{1, nan, 1}})
    EXPECT_THAT(error_of(2, [&] { adapt_delta(0.1, 0.5, 0.5, options); }), HasSubstr("min"));
  for (const double delta : {0.0, -1.0, nan})
    EXPECT_THAT(error_of(2, [&] { adapt_delta(delta, 0.5, 0.5); }), HasSubstr("above 0"));
}

}  // namespace
}  // namespace keel
