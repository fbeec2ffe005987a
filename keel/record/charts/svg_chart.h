#pragma once

#include <limits>
#include <string>
#include <vector>

#include "keel/record/charts/chart_scale.h"

namespace keel {

/// One curve. `color` counts through a palette that colour-blind readers can tell apart.
struct ChartLine {
  std::string name;
  std::vector<ChartPoint> points;
  int color = 0;
  bool faint = false;                           // one of many, behind the line that they are about
  std::vector<ChartPoint> low = {}, high = {};  // edges of a band around it; empty for none
};

/// A value that matters, drawn from edge to edge.
struct ChartLevel {
  double y = 0;
  std::string label;
};

/// One point with an interval, drawn over the curves.
struct ChartMark {
  double x = 0, y = 0, low = 0, high = 0;
  std::string label;  // written beside it; empty for none
  int color = 1;
  bool label_below = false;
};

/// A chart as data; what is drawn depends on nothing else.
struct Chart {
  std::string id = {};  // prefix of the ids inside, unique on its page
  std::string title = {};
  std::string description = {};  // for readers who cannot see it
  std::string x_label = "step";
  double width = 520, height = 230;
  bool percent = false;     // values are shares
  bool from_zero = false;   // the y axis includes 0
  double up_to = 0;         // with from_zero: and this, so that charts beside each other have one axis
  bool may_be_log = false;  // logarithmic y axis when the values span a hundredfold
  size_t window = 1;        // above 1: the values faintly, boldly their moving average over so many steps
  size_t buckets = 240;     // at most about twice as many points are drawn per curve
  std::vector<ChartLine> lines = {};
  std::vector<ChartMark> marks = {};
  std::vector<ChartLevel> levels = {};
};

/// Number of steps that the bold line of a curve with so many points should average over; 1 means not smoothed.
size_t smoothing_window(size_t points);

/// Colour number `color` of the palette as #rrggbb, readable on white and on dark grounds.
std::string chart_color(int color);

/// A number in the coordinates of an SVG: one decimal is a tenth of a pixel.
std::string svg_number(double value);

/// The plot area, axes, curves and marks as one SVG group `chart.width` by `chart.height` large.
std::string chart_group(const Chart& chart);

/// A whole <svg> element, sized by its viewBox, with <title> and <desc>. No element refers to anything outside.
std::string svg_chart(const Chart& chart);

}  // namespace keel
