#pragma once

#include <limits>
#include <string>
#include <vector>

#include "keel/record/charts/chart_scale.h"

namespace keel {

/// One curve. `color` is an index into a palette for colour-blind readers.
struct ChartLine {
  std::string name;
  std::vector<ChartPoint> points;
  int color = 0;
  bool faint = false;                           // drawn faintly in the background
  std::vector<ChartPoint> low = {}, high = {};  // edges of a band; empty: no band
};

/// A horizontal reference line.
struct ChartLevel {
  double y = 0;
  std::string label;
};

/// One point with an interval, drawn over the curves.
struct ChartMark {
  double x = 0, y = 0, low = 0, high = 0;
  std::string label;  // next to the point; may be empty
  int color = 1;
  bool label_below = false;
};

/// The data and options of a chart.
struct Chart {
  std::string id = {};  // prefix of the ids inside, unique on its page
  std::string title = {};
  std::string description = {};  // for screen readers
  std::string x_label = "step";
  double width = 520, height = 230;
  bool percent = false;        // values are fractions
  bool includes_zero = false;  // the y axis includes 0
  double min_y_top = 0;     // with includes_zero: the y axis includes this value, for a common axis of several charts
  bool may_be_log = false;  // logarithmic y axis if the values span a factor of 100
  size_t window = 1;        // above 1: draws a bold moving average over this number of steps
  size_t buckets = 240;     // a curve has at most about twice as many points
  std::vector<ChartLine> lines = {};
  std::vector<ChartMark> marks = {};
  std::vector<ChartLevel> levels = {};
};

/// Returns the smoothing window for a curve of `points` points; 1 means no smoothing.
size_t smoothing_window(size_t points);

/// Palette colour as #rrggbb, readable on white and dark backgrounds.
std::string chart_color(int color);

/// Formats an SVG coordinate with one decimal.
std::string svg_number(double value);

/// The plot area, axes, curves and marks as one SVG group `chart.width` by `chart.height` large.
std::string chart_group(const Chart& chart);

/// An <svg> element sized by its viewBox, with <title> and <desc>. It has no external references.
std::string svg_chart(const Chart& chart);

}  // namespace keel
