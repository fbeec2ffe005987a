#include "keel/record/charts/chart_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace keel {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

TEST(LinearAxis, EndsAtRoundNumbers) {
  const Axis axis = linear_axis(0.38, 0.83, 5);
  EXPECT_EQ(tick_labels(axis, false), (std::vector<std::string>{"0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_DOUBLE_EQ(axis.position(0.6), 0.5);
}

TEST(LinearAxis, ExtendsAConstantOnBothSides) {
  const Axis half = linear_axis(0.5, 0.5, 5);
  EXPECT_LT(half.low, 0.5);
  EXPECT_GT(half.high, 0.5);
  const Axis zero = linear_axis(0, 0, 5);
  EXPECT_EQ(zero.low, 0);
  EXPECT_EQ(zero.high, 1);
  const Axis negative = linear_axis(-3, -3, 5);
  EXPECT_LT(negative.low, -3);
  EXPECT_GT(negative.high, -3);
}

TEST(ChooseAxis, IsLogarithmicOnlyWhenAllowedPositiveAndWide) {
  EXPECT_TRUE(choose_axis(std::vector<double>{1e-6, 1e-2}, true, 5).logarithmic);
  EXPECT_FALSE(choose_axis(std::vector<double>{1e-6, 1e-2}, false, 5).logarithmic);
  EXPECT_FALSE(choose_axis(std::vector<double>{1, 50}, true, 5).logarithmic);
  EXPECT_FALSE(choose_axis(std::vector<double>{-1, 1e-6, 1e3}, true, 5).logarithmic);
}

TEST(ChooseAxis, IgnoresValuesThatCannotBePlotted) {
  const Axis axis = choose_axis(std::vector<double>{kNoNumber, 1, INFINITY, 3, 1e300}, false, 3);
  EXPECT_EQ(axis.low, 1);
  EXPECT_EQ(axis.high, 3);
  EXPECT_TRUE(std::isfinite(choose_axis(std::vector<double>{kNoNumber}, true, 5).position(0.5)));
}

TEST(TickLabels, UseUnitPrefixes) {
  EXPECT_EQ(tick_labels(linear_axis(0, 0.04, 5), true), (std::vector<std::string>{"0 %", "1 %", "2 %", "3 %", "4 %"}));
  EXPECT_EQ(tick_labels(linear_axis(0, 60000, 4), false), (std::vector<std::string>{"0", "20 k", "40 k", "60 k"}));
  EXPECT_EQ(tick_labels(logarithmic_axis(2e-6, 0.5e-3), false),
            (std::vector<std::string>{"1e-6", "1e-5", "1e-4", "0.001"}));
  EXPECT_EQ(tick_labels(linear_axis(-1, 1, 3), false), (std::vector<std::string>{"-1", "0", "1"}));
}

TEST(FormatNumber, IsShortAndHasNoZerosInTheExponent) {
  EXPECT_EQ(format_number(0.30000000000000004), "0.3");
  EXPECT_EQ(format_number(2.96e-7, 2), "3e-7");
  EXPECT_EQ(format_number(1.5e10), "1.5e10");
  EXPECT_EQ(format_number(-0.0), "0");
  EXPECT_EQ(format_number(kNoNumber), "–");
}

TEST(Decimate, KeepsEverySpikeOfTenThousandPoints) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 10000; ++i) points.push_back({static_cast<double>(i), std::sin(i * 0.01)});
  points[1234].y = 7;
  points[8765].y = -9;
  const std::vector<ChartPoint> kept = decimate(points, 200);
  EXPECT_LE(kept.size(), 400u);
  std::set<double> values;
  for (size_t i = 0; i < kept.size(); ++i) {
    values.insert(kept[i].y);
    EXPECT_TRUE(i == 0 || kept[i - 1].x < kept[i].x);
  }
  EXPECT_EQ(values.count(7), 1u);
  EXPECT_EQ(values.count(-9), 1u);
}

TEST(Decimate, KeepsGapsAndShortCurves) {
  std::vector<ChartPoint> points(1000, ChartPoint{0, 1});
  for (size_t i = 0; i < points.size(); ++i) points[i].x = static_cast<double>(i);
  points[500].y = kNoNumber;
  size_t gaps = 0;
  for (const ChartPoint& point : decimate(points, 10)) gaps += std::isnan(point.y);
  EXPECT_EQ(gaps, 1u);
  EXPECT_EQ(decimate(std::vector<ChartPoint>{{1, 2}, {3, kNoNumber}}, 10).size(), 2u);
}

TEST(MovingAverage, IsTheMeanOfTheWindowWithoutGaps) {
  const std::vector<ChartPoint> points{{0, 1}, {1, 2}, {2, 6}, {3, kNoNumber}, {4, 4}, {5, 8}, {6, 0}};
  const std::vector<ChartPoint> average = moving_average(points, 3);
  EXPECT_DOUBLE_EQ(average[1].y, 3);  // (1 + 2 + 6) / 3
  EXPECT_DOUBLE_EQ(average[2].y, 4);  // (2 + 6) / 2
  EXPECT_TRUE(std::isnan(average[3].y));
  EXPECT_DOUBLE_EQ(average[5].y, 4);  // (4 + 8 + 0) / 3
  EXPECT_DOUBLE_EQ(average[0].y, 1);  // the ends are not bent by a one-sided window
}

}  // namespace
}  // namespace keel
