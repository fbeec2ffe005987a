#pragma once

#include <limits>
#include <span>
#include <string>

namespace keel {

/// Options of a terminal chart. NaN ends of the y axis are derived from the values.
struct TerminalChartOptions {
  int width = 72;   // columns, with the axis labels
  int height = 10;  // rows of the plot, without title and x axis
  std::string title = {};
  std::string y_label = {};
  std::string x_label = "step";
  double y_min = std::numeric_limits<double>::quiet_NaN();
  double y_max = std::numeric_limits<double>::quiet_NaN();
  double x_first = 1;  // x of the first and the last value
  double x_last = std::numeric_limits<double>::quiet_NaN();
  bool ascii = false;  // for terminals without UTF-8
};

/// A line chart of `y` in braille dots (or ASCII). NaN and infinity are gaps.
std::string terminal_chart(std::span<const double> y, const TerminalChartOptions& options);

/// Returns whether the locale of the environment is UTF-8, which braille dots need.
bool terminal_has_utf8();

}  // namespace keel
