#include "keel/record/charts/svg_chart.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "keel/record/report/learning_curve_svg.h"
#include "tests/record/occurrences.h"

namespace keel {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The data of the first curve's path.
std::string path_of(const std::string& svg) {
  const size_t line = svg.find("class=\"line"), begin = svg.find(" d=\"", line) + 4;
  return line == std::string::npos ? "" : svg.substr(begin, svg.find('"', begin) - begin);
}

Chart chart_with(std::vector<ChartPoint> points) {
  Chart chart;
  chart.id = "test";
  chart.title = "A & B";
  chart.lines.push_back({"curve", std::move(points), 0});
  return chart;
}

TEST(SvgChart, DrawsALineFromCornerToCorner) {
  Chart chart = chart_with({{0, 0}, {10, 1}});
  chart.width = 172;   // 100 between the margins of 56 and 16
  chart.height = 148;  // 100 between the margins of 14 and 34
  EXPECT_EQ(path_of(svg_chart(chart)), "M56 114L156 14");
}

TEST(SvgChart, InterruptsABandAtGaps) {
  Chart chart = chart_with({{0, 0.5}, {10, 0.5}});
  chart.width = 172;
  chart.height = 148;
  chart.lines[0].low = {{0, 0}, {10, 0}};
  chart.lines[0].high = {{0, 1}, {10, 1}};
  EXPECT_EQ(occurrences(svg_chart(chart), "fill-opacity=\"0.16\" d=\"M56 14L156 14L156 114L56 114Z\""), 1u);
  chart.lines[0].points = {{0, 0.5}, {2, 0.5}, {5, kNan}, {8, 0.5}, {10, 0.5}};
  chart.lines[0].low = {{0, 0}, {2, 0}, {5, kNan}, {8, 0}, {10, 0}};
  chart.lines[0].high = {{0, 1}, {2, 1}, {5, 1}, {8, 1}, {10, 1}};
  EXPECT_EQ(occurrences(svg_chart(chart), " d=\"M56 14L76 14L76 114L56 114ZM136 14L156 14L156 114L136 114Z\""), 1u);
  chart.levels = {{0.5, "half"}};
  EXPECT_EQ(occurrences(svg_chart(chart), "stroke-dasharray=\"5 4\" d=\"M56 64H156\""), 1u);
}

TEST(SvgChart, SupportsCommonAxesAndFaintLines) {
  Chart chart = chart_with({{0, 0}, {10, 0.5}});
  chart.width = 172;
  chart.height = 148;
  chart.includes_zero = true;
  chart.min_y_top = 1;
  EXPECT_EQ(path_of(svg_chart(chart)), "M56 114L156 64");  // half of the way up
  chart.lines[0].faint = true;
  EXPECT_EQ(path_of(svg_chart(chart)), "");
  EXPECT_EQ(occurrences(svg_chart(chart), "class=\"faint"), 1u);
}

TEST(SvgChart, InterruptsALineAtAGapAndDrawsAnIsolatedValueAsADot) {
  const std::string svg = svg_chart(chart_with({{1, 1}, {2, 2}, {3, kNan}, {4, 3}, {5, INFINITY}, {6, 1}, {7, 2}}));
  EXPECT_EQ(occurrences(path_of(svg), "M"), 2u);
  EXPECT_EQ(occurrences(svg, "<circle"), 1u);
}

TEST(SvgChart, NeverWritesNanOrInfinity) {
  for (const auto& points : std::vector<std::vector<ChartPoint>>{{},
                                                                 {{1, kNan}},
                                                                 {{1, 0}},
                                                                 {{1, 5}, {2, 5}},
                                                                 {{1, -INFINITY}, {2, 1e308}, {3, -1e308}},
                                                                 {{1, 0}, {2, 1e-300}, {3, 1}, {4, 2}, {5, 1e5}}}) {
    for (const bool log : {false, true}) {
      Chart chart = chart_with(points);
      chart.may_be_log = log;
      chart.marks.push_back({1, kNan, kNan, kNan, "x", 1});
      const std::string svg = svg_chart(chart);
      EXPECT_THAT(svg, testing::Not(testing::HasSubstr("nan")));
      EXPECT_THAT(svg, testing::Not(testing::HasSubstr("inf")));
    }
  }
}

TEST(SvgChart, DrawsASingleValueAsADot) {
  const std::string svg = svg_chart(chart_with({{5, 0.5}}));
  EXPECT_EQ(occurrences(svg, "<circle"), 1u);
  EXPECT_EQ(path_of(svg), "");
}

TEST(SvgChart, StaysSmallForTenThousandSteps) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 10000; ++i) points.push_back({static_cast<double>(i), std::sin(i * 1.7)});
  Chart chart = chart_with(points);
  chart.window = 401;
  EXPECT_LT(svg_chart(chart).size(), 20000u);
}

TEST(SvgChart, HasATitleAndADescription) {
  Chart chart = chart_with({{1, 1}});
  chart.description = "rises";
  const std::string svg = svg_chart(chart);
  EXPECT_THAT(svg, testing::HasSubstr("<title id=\"test-title\">A &amp; B</title><desc id=\"test-desc\">rises</desc>"));
  EXPECT_THAT(svg, testing::HasSubstr("aria-labelledby=\"test-title test-desc\""));
}

TEST(LearningCurveSvg, IsStandaloneAndShowsTheAccuracyBeforeAndAfter) {
  RunData run;
  run.name = "<quick & start>";
  run.metrics = {{"eval", 0, {{"eval/accuracy", 0.25}, {"eval/low", 0.2}, {"eval/high", 0.3}}},
                 {"rl", 1, {{"reward/mean", 0.3}}},
                 {"rl", 2, {{"reward/mean", 0.7}}},
                 {"eval", 2, {{"eval/accuracy", 0.75}, {"eval/low", 0.7}, {"eval/high", 0.8}}}};
  const std::string svg = learning_curve_svg(run);
  EXPECT_EQ(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0), 0u);
  EXPECT_THAT(svg, testing::HasSubstr("&lt;quick &amp; start&gt;: accuracy 25.0 % → 75.0 %"));
  for (const char* forbidden : {"<style", "<script", "href", "url(", "var(", "nan"}) {
    EXPECT_THAT(svg, testing::Not(testing::HasSubstr(forbidden)));
  }
  EXPECT_THAT(learning_curve_svg(RunData{}), testing::Not(testing::HasSubstr("nan")));
}

}  // namespace
}  // namespace keel
