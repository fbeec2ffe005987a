#pragma once

#include <limits>
#include <span>
#include <string>

namespace keel {

/// How to draw a curve in a terminal; an end of the y axis that is not given comes from the values.
struct TerminalChartOptions {
  int width = 72;   // columns, with the axis labels
  int height = 10;  // rows of the plot itself; title and x axis come on top
  std::string title = {};
  std::string y_label = {};
  std::string x_label = "step";
  double y_min = std::numeric_limits<double>::quiet_NaN();
  double y_max = std::numeric_limits<double>::quiet_NaN();
  double x_first = 1;  // what the first and the last value stand for on the x axis
  double x_last = std::numeric_limits<double>::quiet_NaN();
  bool ascii = false;  // for terminals without UTF-8
};

/// A line chart of `y` in braille dots (or ASCII), values as they are, with a gap where one is not finite.
std::string terminal_chart(std::span<const double> y, const TerminalChartOptions& options);

/// True where the locale of the environment says that text is UTF-8, so that braille dots will show.
bool terminal_has_utf8();

}  // namespace keel
