#include "keel/record/charts/svg_chart.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "keel/record/charts/html.h"

namespace keel {
namespace {

// Colours of Okabe and Ito, "Color universal design" (2008); without their yellow, which is invisible on white.
constexpr std::array<const char*, 7> kPalette{"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                              "#E69F00", "#56B4E9", "#8A6FBF"};
constexpr double kLeft = 56, kRight = 16, kTop = 14, kBottom = 34;
constexpr const char* kFont = "system-ui,-apple-system,Segoe UI,Roboto,Helvetica,Arial,sans-serif";

std::string attribute(const char* name, double value) {
  return std::string(" ") + name + "=\"" + svg_number(value) + "\"";
}

std::string text_element(double x, double y, const char* anchor, const std::string& text) {
  return "<text" + attribute("x", x) + attribute("y", y) + " text-anchor=\"" + anchor + "\">" + escape_html(text) +
         "</text>";
}

/// Maps values to pixels.
struct Frame {
  Axis x, y;
  double left, top, width, height;

  double px(double value) const { return left + std::clamp(x.position(value), 0.0, 1.0) * width; }
  double py(double value) const { return top + (1 - std::clamp(y.position(value), 0.0, 1.0)) * height; }
  bool shows(double value) const { return is_plottable(value) && (!y.logarithmic || value > 0); }
};

Frame make_frame(const Chart& chart) {
  std::vector<double> xs, ys;
  for (const ChartLine& line : chart.lines) {
    for (const auto* points : {&line.points, &line.low, &line.high}) {
      for (const ChartPoint& point : *points) {
        xs.push_back(point.x);
        ys.push_back(point.y);
      }
    }
  }
  for (const ChartLevel& level : chart.levels) ys.push_back(level.y);
  for (const ChartMark& mark : chart.marks) {
    xs.push_back(mark.x);
    for (const double value : {mark.low, mark.y, mark.high}) ys.push_back(value);
  }
  if (chart.includes_zero && !chart.may_be_log) ys.insert(ys.end(), {0, chart.min_y_top});
  Frame frame{choose_axis(xs, false, 6), choose_axis(ys, chart.may_be_log, 5), kLeft, kTop, 0, 0};
  if (chart.includes_zero && chart.may_be_log && !frame.y.logarithmic) {
    ys.push_back(0);
    frame.y = choose_axis(ys, false, 5);
  }
  frame.width = chart.width - kLeft - kRight;
  frame.height = chart.height - kTop - kBottom;
  // The x axis covers exactly the steps, without rounding.
  const auto [first, last] = std::minmax_element(xs.begin(), xs.end());
  if (first != xs.end() && *last > *first) {
    frame.x.low = *first;
    frame.x.high = *last;
    std::erase_if(frame.x.ticks, [&](double tick) {
      return tick < *first || tick > *last || std::fabs(tick - std::round(tick)) > 1e-6;  // steps are integers
    });
  } else if (first != xs.end()) {
    frame.x.low = *first - 1;
    frame.x.high = *first + 1;
    frame.x.ticks = {*first};
  }
  return frame;
}

std::string grid(const Frame& frame, const Chart& chart) {
  std::string out = "<g class=\"grid\" stroke=\"#8b949e\" stroke-opacity=\"0.28\" stroke-width=\"1\">";
  const double right = frame.left + frame.width, bottom = frame.top + frame.height;
  for (const double tick : frame.y.ticks) {
    out += "<path d=\"M" + svg_number(frame.left) + " " + svg_number(frame.py(tick)) + "H" + svg_number(right) + "\"/>";
  }
  out += "</g><g class=\"labels\" fill=\"#768390\">";
  const std::vector<std::string> y_labels = tick_labels(frame.y, chart.percent);
  for (size_t i = 0; i < y_labels.size(); ++i) {
    out += text_element(frame.left - 7, frame.py(frame.y.ticks[i]) + 4, "end", y_labels[i]);
  }
  const std::vector<std::string> x_labels = tick_labels(frame.x, false);
  for (size_t i = 0; i < x_labels.size(); ++i) {
    out += text_element(frame.px(frame.x.ticks[i]), bottom + 19, "middle", x_labels[i]);
  }
  out += text_element(frame.left - 22, bottom + 19, "end", chart.x_label);  // left of all tick labels
  if (frame.y.logarithmic) out += text_element(right, frame.top - 3, "end", "log scale");
  return out + "</g>";
}

/// Lines between neighbouring values, interrupted at gaps, and dots for isolated values.
struct Strokes {
  std::string path;
  std::string dots;
};

Strokes make_strokes(const std::vector<ChartPoint>& points, const Frame& frame) {
  Strokes strokes;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!frame.shows(points[i].y)) continue;
    const bool starts = i == 0 || !frame.shows(points[i - 1].y);
    const bool ends = i + 1 == points.size() || !frame.shows(points[i + 1].y);
    const std::string x = svg_number(frame.px(points[i].x)), y = svg_number(frame.py(points[i].y));
    if (starts && ends) {
      strokes.dots += "<circle cx=\"" + x + "\" cy=\"" + y + "\" r=\"2.5\"/>";
    } else {
      strokes.path += (starts ? "M" : "L") + x + " " + y;
    }
  }
  return strokes;
}

std::string draw_strokes(const Strokes& strokes, const std::string& kind, const ChartLine& line, double width,
                         double opacity) {
  const std::string color = chart_color(line.color);
  const std::string color_class = "s" + std::to_string(line.color % static_cast<int>(kPalette.size()));
  const std::string dash = line.color >= static_cast<int>(kPalette.size()) ? " stroke-dasharray=\"6 3\"" : "";
  std::string out;
  if (!strokes.path.empty()) {
    out += "<path class=\"" + kind + " " + color_class + "\" data-name=\"" + escape_untrusted(line.name) +
           "\" fill=\"none\" stroke=\"" + color + "\" stroke-width=\"" + svg_number(width) + "\" stroke-opacity=\"" +
           format_number(opacity) + "\" stroke-linejoin=\"round\" vector-effect=\"non-scaling-stroke\"" + dash +
           " d=\"" + strokes.path + "\"/>";
  }
  if (!strokes.dots.empty())
    out += "<g class=\"dot " + color_class + "\" fill=\"" + color + "\">" + strokes.dots + "</g>";
  return out;
}

/// The area between two edges, interrupted at gaps.
std::string draw_band(const ChartLine& line, const Chart& chart, const Frame& frame) {
  const size_t count = std::min(line.low.size(), line.high.size());
  const auto smoothed = [&](const std::vector<ChartPoint>& points) {
    return chart.window > 1 ? moving_average(points, chart.window) : points;
  };
  const std::vector<ChartPoint> low = smoothed(line.low), high = smoothed(line.high);
  const size_t stride = count / (2 * chart.buckets) + 1;
  std::string path;
  for (size_t begin = 0; begin < count; ++begin) {
    std::string upper, lower;
    size_t end = begin;
    for (; end < count && frame.shows(low[end].y) && frame.shows(high[end].y); ++end) {
      const bool last = end + 1 == count || !frame.shows(low[end + 1].y) || !frame.shows(high[end + 1].y);
      if ((end - begin) % stride != 0 && !last) continue;
      const std::string x = svg_number(frame.px(high[end].x));
      upper += (upper.empty() ? "M" : "L") + x + " " + svg_number(frame.py(high[end].y));
      lower = "L" + x + " " + svg_number(frame.py(low[end].y)) + lower;
    }
    if (!upper.empty()) path += upper + lower + "Z";
    begin = std::max(begin, end);
  }
  if (path.empty()) return "";
  return "<path class=\"band s" + std::to_string(line.color % static_cast<int>(kPalette.size())) + "\" fill=\"" +
         chart_color(line.color) + "\" fill-opacity=\"0.16\" d=\"" + path + "\"/>";
}

std::string draw_level(const ChartLevel& level, const Frame& frame) {
  if (!frame.shows(level.y)) return "";
  const double y = frame.py(level.y), right = frame.left + frame.width;
  return "<g class=\"level\"><path fill=\"none\" stroke=\"#768390\" stroke-dasharray=\"5 4\" d=\"M" +
         svg_number(frame.left) + " " + svg_number(y) + "H" + svg_number(right) +
         "\"/><g class=\"labels\" fill=\"#768390\">" +
         text_element(right, y > frame.top + 16 ? y - 5 : y + 14, "end", level.label) + "</g></g>";
}

std::string draw_line(const ChartLine& line, const Chart& chart, const Frame& frame) {
  const std::vector<ChartPoint> values = decimate(line.points, chart.buckets);
  if (line.faint) return draw_strokes(make_strokes(values, frame), "faint", line, 1, 0.35);
  const double width = values.size() > 150 ? 1.3 : 1.8;
  if (chart.window <= 1) return draw_strokes(make_strokes(values, frame), "line", line, width, 1);
  const std::vector<ChartPoint> average = decimate(moving_average(line.points, chart.window), chart.buckets / 2);
  // A band already shows the spread, so single steps are not drawn.
  return (line.low.empty() ? draw_strokes(make_strokes(values, frame), "faint", line, 1, 0.3) : "") +
         draw_strokes(make_strokes(average, frame), "line", line, 2.2, 1);
}

std::string draw_mark(const ChartMark& mark, const Frame& frame) {
  if (!frame.shows(mark.y)) return "";
  const std::string color = chart_color(mark.color), x = svg_number(frame.px(mark.x));
  std::string out = "<g class=\"mark s" + std::to_string(mark.color % static_cast<int>(kPalette.size())) +
                    "\" stroke=\"" + color + "\" fill=\"" + color + "\">";
  if (frame.shows(mark.low) && frame.shows(mark.high) && mark.high > mark.low) {
    out += "<path fill=\"none\" stroke-width=\"1.5\" d=\"M" + x + " " + svg_number(frame.py(mark.low)) + "V" +
           svg_number(frame.py(mark.high)) + "\"/>";
  }
  out += "<circle cx=\"" + x + "\" cy=\"" + svg_number(frame.py(mark.y)) + "\" r=\"3.6\" stroke-width=\"0\"/></g>";
  if (mark.label.empty()) return out;
  const bool at_right = frame.px(mark.x) > frame.left + frame.width * 0.7;
  const double above = frame.py(mark.high) - 7, below = frame.py(mark.low) + 17;
  const bool fits_above = above > frame.top + 8, fits_below = below < frame.top + frame.height;
  const double y = mark.label_below ? (fits_below ? below : above) : (fits_above ? above : below);
  return out + "<g class=\"mark-label\" font-weight=\"600\" fill=\"" + color + "\">" +
         text_element(frame.px(mark.x), y, at_right ? "end" : "start", mark.label) + "</g>";
}

std::string frame_data(const Frame& frame) {
  const auto join = [](std::initializer_list<double> values) {
    std::string out;
    for (const double value : values) out += (out.empty() ? "" : " ") + format_number(value, 9);
    return out;
  };
  return " data-box=\"" + join({frame.left, frame.top, frame.width, frame.height}) + "\" data-x=\"" +
         join({frame.x.low, frame.x.high}) + "\" data-y=\"" + join({frame.y.low, frame.y.high}) + "\" data-log=\"" +
         (frame.y.logarithmic ? "1" : "0") + "\"";
}

}  // namespace

size_t smoothing_window(size_t points) { return points < 60 ? 1 : points / 50 * 2 + 1; }

std::string chart_color(int color) { return kPalette[static_cast<size_t>(color) % kPalette.size()]; }

std::string svg_number(double value) {
  if (!is_plottable(value)) return "0";  // callers skip such values; "nan" would make the SVG invalid
  const double rounded = std::round(value * 10) / 10;
  char buffer[256];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, rounded == 0 ? 0.0 : rounded);
  return std::string(buffer, result.ptr);
}

std::string chart_group(const Chart& chart) {
  const Frame frame = make_frame(chart);
  std::string out = "<g class=\"plot\"" + frame_data(frame) + (chart.percent ? " data-percent=\"1\"" : "") +
                    (chart.x_label == "step" ? "" : " data-x-label=\"" + escape_html(chart.x_label) + "\"") + ">";
  out += grid(frame, chart);
  for (const ChartLine& line : chart.lines) out += draw_band(line, chart, frame);
  for (const ChartLevel& level : chart.levels) out += draw_level(level, frame);
  for (const ChartLine& line : chart.lines) out += draw_line(line, chart, frame);
  for (const ChartMark& mark : chart.marks) out += draw_mark(mark, frame);
  return out + "</g>";
}

std::string svg_chart(const Chart& chart) {
  const std::string title = chart.id + "-title", description = chart.id + "-desc";
  return "<svg class=\"chart\" viewBox=\"0 0 " + svg_number(chart.width) + " " + svg_number(chart.height) +
         "\" role=\"img\" aria-labelledby=\"" + title + " " + description + "\" font-family=\"" + kFont +
         "\" font-size=\"12\"><title id=\"" + title + "\">" + escape_untrusted(chart.title) + "</title><desc id=\"" +
         description + "\">" + escape_untrusted(chart.description) + "</desc>" + chart_group(chart) + "</svg>";
}

}  // namespace keel
