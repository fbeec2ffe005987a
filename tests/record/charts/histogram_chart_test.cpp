#include "keel/record/charts/histogram_chart.h"

#include <gtest/gtest.h>

#include "tests/record/occurrences.h"

namespace keel {
namespace {

// The plot covers 56 to 504 and 18 to 196. Two decades: the first bin ends in the middle, at 280. Counts go
// from a half (a logarithmic axis has no 0) to 100: one token is log(2)/log(200) = 0.1308 of 178 high, and ends at
// 172.7.
TEST(HistogramChart, HasLogarithmicAxes) {
  HistogramChart histogram{"h", "Title", "", 1, 10};
  histogram.background = {1, 100};
  histogram.foreground = {0, 1};
  histogram.thresholds = {10};
  const std::string svg = svg_histogram(histogram);
  EXPECT_EQ(occurrences(svg, "class=\"bar kept\" d=\"M56.5 196V172.7H279.5V196ZM280.5 196V18H503.5V196Z\""), 1u);
  EXPECT_EQ(occurrences(svg, "class=\"bar affected\" d=\"M281.5 196V172.7H502.5V196Z\""), 1u);
  EXPECT_EQ(occurrences(svg, "d=\"M280 18V196\""), 1u);
  EXPECT_EQ(occurrences(svg, ">threshold 10<"), 1u);
}

TEST(HistogramChart, IsEmptyWithoutCounts) {
  EXPECT_EQ(svg_histogram({"h", "Title", "", 1, 10}), "");
  HistogramChart zeros{"h", "Title", "", 1, 10};
  zeros.background = {0, 0, 0};
  EXPECT_EQ(svg_histogram(zeros), "");
}

}  // namespace
}  // namespace keel
