#include "keel/train/metrics/token_metrics.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace keel {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

TEST(TokenHistogram, ABucketExcludesItsLowerLimitAndIncludesItsUpperLimit) {
  TokenHistogram histogram({1, 2, 4, 8});
  EXPECT_FALSE(histogram.read());
  histogram.add(at::tensor({1.5, 2.0, kInfinity}));
  histogram.add(at::tensor({2.5, kNan, 9.0, 10.0, -kInfinity}));
  const Histogram read = histogram.read().value();
  EXPECT_EQ(read.count, 5);
  EXPECT_THAT(read.limits, ElementsAre(2, 4, 8, 10));  // no value is at most 1; the last limit is the maximum
  EXPECT_THAT(read.counts, ElementsAre(2, 1, 0, 2));
  EXPECT_DOUBLE_EQ(read.sum, 25);
  EXPECT_DOUBLE_EQ(read.sum_of_squares, 2.25 + 4 + 6.25 + 81 + 100);
  EXPECT_EQ(read.smallest, 1.5);
  EXPECT_EQ(read.largest, 10);
}

TEST(TokenHistogram, IsEmptyIfNoValueIsFinite) {
  TokenHistogram histogram({1});
  histogram.add(at::tensor({kNan, kInfinity}));
  histogram.add(at::empty({0}));
  EXPECT_FALSE(histogram.read());
}

TEST(TokenHistogram, LimitsAreAscendingDecimalLiterals) {
  const auto limits_between = [](TokenHistogram histogram, std::vector<double> ends) {
    histogram.add(at::tensor(ends, at::kDouble));
    return histogram.read().value().limits;
  };
  EXPECT_THAT(limits_between(TokenHistogram::for_divergences(), {0.1, 2}),
              ElementsAre(DoubleEq(0.1), DoubleEq(0.2), DoubleEq(0.5), 1, 2));
  EXPECT_THAT(limits_between(TokenHistogram::for_ratios(), {0.2, 0.9}),
              ElementsAre(DoubleEq(0.2), 0.5, DoubleEq(0.8), DoubleEq(0.9)));
  EXPECT_THAT(limits_between(TokenHistogram::for_ratios(), {1.2, 5}), ElementsAre(DoubleEq(1.2), 1.5, 2, 5));
  for (const TokenHistogram& histogram : {TokenHistogram::for_divergences(), TokenHistogram::for_ratios()}) {
    const std::vector<double> limits = limits_between(histogram, {0, 1e9});
    EXPECT_EQ(std::adjacent_find(limits.begin(), limits.end(), std::greater_equal<>()), limits.end());
    EXPECT_LT(limits.size(), 80u) << "a row of metrics.jsonl is not to be long";
  }
}

}  // namespace
}  // namespace keel
