#include "keel/record/charts/terminal_chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

#include "keel/core/console.h"

namespace keel {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(TerminalChart, DrawsARisingLineFromTheLowerLeftToTheUpperRight) {
  const std::vector<double> y{0, 0, 1, 1, 2, 2, 3, 3};
  const TerminalChartOptions options{.width = 11, .height = 2, .y_min = 0, .y_max = 3, .ascii = true};
  // One value per column and four heights in two rows: lower and upper half of the lower row, then of the upper row.
  EXPECT_EQ(terminal_chart(y, options),
            "3 +    ..''\n"
            "0 +..''\n"
            "  +--------\n"
            "   1 step 8\n");
}

TEST(TerminalChart, UsesBrailleDotsByDefault) {
  const std::vector<double> y{1, 1};
  const std::string chart = terminal_chart(y, {.width = 11, .height = 2, .y_min = 0, .y_max = 1});
  EXPECT_EQ(lines_of(chart)[0], "1 ┤⠉⠉⠉⠉⠉⠉⠉⠉");  // the upper two dots of every cell
}

TEST(TerminalChart, StaysWithinItsWidthForAnyNumberOfValues) {
  for (const int count : {1, 2, 59, 10000}) {
    std::vector<double> y;
    for (int i = 0; i < count; ++i) y.push_back(std::sin(i * 0.1));
    for (const bool ascii : {false, true}) {
      const std::vector<std::string> lines = lines_of(terminal_chart(y, {.width = 60, .height = 8, .ascii = ascii}));
      EXPECT_EQ(lines.size(), 10u);
      for (const std::string& line : lines) EXPECT_LE(display_width(line), 60) << line;
    }
  }
}

TEST(TerminalChart, LeavesAGapForAMissingValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> y{1, 1, nan, nan, nan, 1, 1};
  const TerminalChartOptions options{.width = 11, .height = 2, .y_min = 0, .y_max = 1, .ascii = true};
  EXPECT_EQ(lines_of(terminal_chart(y, options))[0], "1 +''    ''");
}

TEST(TerminalChart, ReportsMissingValues) {
  EXPECT_EQ(terminal_chart({}, {.title = "Reward"}), "Reward\n(no values)\n");
  EXPECT_EQ(terminal_chart(std::vector<double>{NAN, INFINITY}, {}), "(no values)\n");
}

}  // namespace
}  // namespace keel
