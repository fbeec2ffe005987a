#include "keel/record/charts/histogram_chart.h"

#include <algorithm>
#include <cmath>

#include "keel/core/console.h"
#include "keel/record/charts/chart_scale.h"
#include "keel/record/charts/html.h"
#include "keel/record/charts/svg_chart.h"

namespace keel {
namespace {

constexpr double kWidth = 520, kHeight = 230, kBarsLeft = 56, kBarsRight = 16, kBarsTop = 18, kBarsBottom = 34;

/// Maps values and counts to pixels.
struct Scale {
  Axis x, y;

  double px(double value) const {
    return kBarsLeft + std::clamp(x.position(value), 0.0, 1.0) * (kWidth - kBarsLeft - kBarsRight);
  }
  double py(double count) const {
    return kHeight - kBarsBottom - (count <= y.low ? 0 : y.position(count)) * (kHeight - kBarsTop - kBarsBottom);
  }
};

int64_t count_at(const std::vector<int64_t>& counts, size_t i) { return i < counts.size() ? counts[i] : 0; }

double lower_edge(const HistogramChart& histogram, size_t i) {
  return histogram.first * std::pow(histogram.ratio, static_cast<double>(i));
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) + "\" text-anchor=\"" + anchor + "\">" +
         escape_html(text) + "</text>";
}

std::string bars(const HistogramChart& histogram, const std::vector<int64_t>& counts, const Scale& scale,
                 const char* kind, double inset) {
  std::string path;
  const double bottom = kHeight - kBarsBottom;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const double left = scale.px(lower_edge(histogram, i)) + inset,
                 right = scale.px(lower_edge(histogram, i + 1)) - inset;
    path += "M" + svg_number(left) + " " + svg_number(bottom) + "V" +
            svg_number(scale.py(static_cast<double>(counts[i]))) + "H" + svg_number(right) + "V" + svg_number(bottom) +
            "Z";
  }
  return path.empty() ? "" : "<path class=\"" + std::string(kind) + "\" d=\"" + path + "\"/>";
}

std::string axes(const Scale& scale) {
  const double bottom = kHeight - kBarsBottom, right = kWidth - kBarsRight;
  std::string lines = "<g class=\"grid\" stroke=\"#8b949e\" stroke-opacity=\"0.28\" stroke-width=\"1\">",
              labels = "<g class=\"labels\" fill=\"#768390\">";
  const std::vector<std::string> x_labels = tick_labels(scale.x, false);
  for (size_t i = 0; i < scale.y.ticks.size(); ++i) {
    const double y = scale.py(scale.y.ticks[i]);
    lines += "<path d=\"M" + svg_number(kBarsLeft) + " " + svg_number(y) + "H" + svg_number(right) + "\"/>";
    labels += label(kBarsLeft - 7, y + 4, "end", format_count(std::llround(scale.y.ticks[i])));
  }
  for (size_t i = 0; i < x_labels.size(); ++i)
    labels += label(scale.px(scale.x.ticks[i]), bottom + 19, "middle", x_labels[i]);
  labels += label(kBarsLeft, kBarsTop - 6, "start", "tokens, log scale");
  return lines + "</g>" + labels + "</g>";
}

}  // namespace

std::string svg_histogram(const HistogramChart& histogram) {
  double low = INFINITY, high = 0;
  int64_t max_count = 0;
  for (size_t i = 0; i < std::max(histogram.background.size(), histogram.foreground.size()); ++i) {
    const int64_t count = std::max(count_at(histogram.background, i), count_at(histogram.foreground, i));
    if (count == 0) continue;
    max_count = std::max(max_count, count);
    low = std::min(low, lower_edge(histogram, i));
    high = std::max(high, lower_edge(histogram, i + 1));
  }
  if (max_count == 0) return "";
  for (const double threshold : histogram.thresholds) {
    if (!(threshold > 0) || !is_plottable(threshold)) continue;
    low = std::min(low, threshold);
    high = std::max(high, threshold);
  }
  // The axis starts at half a token, so that a single token is visible.
  Scale scale{logarithmic_axis(low, high), logarithmic_axis(1, std::max<double>(10, static_cast<double>(max_count)))};
  scale.y.low = 0.5;
  std::string out = "<svg class=\"chart histogram\" viewBox=\"0 0 " + svg_number(kWidth) + " " + svg_number(kHeight) +
                    "\" role=\"img\" aria-labelledby=\"" + histogram.id + "-title " + histogram.id +
                    "-desc\" font-size=\"12\"><title id=\"" + histogram.id + "-title\">" +
                    escape_html(histogram.title) + "</title><desc id=\"" + histogram.id + "-desc\">" +
                    escape_html(histogram.description) + "</desc>";
  out += axes(scale) + bars(histogram, histogram.background, scale, "bar kept", 0.5) +
         bars(histogram, histogram.foreground, scale, "bar affected", 1.5);
  std::string names;
  double leftmost = kWidth;
  for (const double threshold : histogram.thresholds) {
    if (!(threshold > 0) || !is_plottable(threshold)) continue;
    const std::string x = svg_number(scale.px(threshold));
    out += "<path class=\"level\" fill=\"none\" stroke=\"#768390\" stroke-dasharray=\"5 4\" d=\"M" + x + " " +
           svg_number(kBarsTop) + "V" + svg_number(kHeight - kBarsBottom) + "\"/>";
    leftmost = std::min(leftmost, scale.px(threshold));
    names += (names.empty() ? histogram.threshold_name + " " : ", ") + format_number(threshold);
  }
  // One label for all thresholds, on the side with space for it.
  const bool at_left = leftmost > kBarsLeft + 150;
  if (!names.empty())
    out += "<g class=\"labels\" fill=\"#768390\">" +
           label(at_left ? leftmost - 6 : kWidth - kBarsRight, kBarsTop + 10, "end", names) + "</g>";
  return out + "</svg>";
}

}  // namespace keel
