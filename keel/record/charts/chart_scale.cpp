#include "keel/record/charts/chart_scale.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "keel/core/strings.h"

namespace keel {
namespace {

/// Rounds a tick distance up to a round number.
double round_step(double distance) {
  const double decade = std::pow(10.0, std::floor(std::log10(distance)));
  for (const double nice : {1.0, 2.0, 2.5, 5.0}) {
    if (distance <= nice * decade * (1 + 1e-9)) return nice * decade;
  }
  return 10 * decade;
}

/// Returns the decimals that distinguish ticks at this distance.
int decimals_for(double step) {
  for (int decimals = 0; decimals < 12; ++decimals) {
    const double scaled = step * std::pow(10.0, decimals);
    if (std::fabs(scaled - std::round(scaled)) < 1e-6 * scaled) return decimals;
  }
  return 12;
}

std::string power_of_ten_label(double value) {
  if (value >= 1e-3 && value < 1e4) return format_number(value);
  const int exponent = static_cast<int>(std::floor(std::log10(value) + 1e-9));
  const double mantissa = value / std::pow(10.0, exponent);
  return format_number(mantissa, 2) + "e" + std::to_string(exponent);
}

}  // namespace

bool is_plottable(double value) { return std::isfinite(value) && std::fabs(value) < 1e200; }

double Axis::position(double value) const {
  if (logarithmic) return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  return (value - low) / (high - low);
}

Axis linear_axis(double low, double high, int ticks) {
  const double magnitude = std::max(std::fabs(low), std::fabs(high));
  if (high - low <= 1e-9 * magnitude || magnitude == 0) {
    // A constant is extended by half its magnitude on both sides; zero gets [0, 1].
    high = magnitude == 0 ? 1 : high + magnitude / 2;
    low = magnitude == 0 ? 0 : low - magnitude / 2;
  }
  const double step = round_step((high - low) / std::max(1, ticks - 1));
  Axis axis;
  axis.low = std::floor(low / step + 1e-6) * step;
  axis.high = std::ceil(high / step - 1e-6) * step;
  const auto count = std::llround((axis.high - axis.low) / step);
  for (long long i = 0; i <= count; ++i) axis.ticks.push_back(axis.low + static_cast<double>(i) * step);
  return axis;
}

Axis logarithmic_axis(double low, double high) {
  Axis axis;
  axis.logarithmic = true;
  const int first = static_cast<int>(std::floor(std::log10(low) + 1e-9));
  const int last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(high) - 1e-9)));
  axis.low = std::pow(10.0, first);
  axis.high = std::pow(10.0, last);
  const int stride = std::max(1, (last - first + 3) / 5);
  for (int exponent = first; exponent <= last; exponent += stride) axis.ticks.push_back(std::pow(10.0, exponent));
  return axis;
}

Axis choose_axis(std::span<const double> values, bool may_be_logarithmic, int ticks) {
  double low = std::numeric_limits<double>::infinity(), high = -low, smallest_positive = low;
  size_t count = 0, positive = 0;
  for (const double value : values) {
    if (!is_plottable(value)) continue;
    ++count;
    low = std::min(low, value);
    high = std::max(high, value);
    if (value <= 1e-200) continue;
    ++positive;
    smallest_positive = std::min(smallest_positive, value);
  }
  if (count == 0) return linear_axis(0, 1, ticks);
  const bool spans_decades = positive > 0 && high / smallest_positive >= 100;
  if (may_be_logarithmic && spans_decades && positive * 10 >= count * 8)
    return logarithmic_axis(smallest_positive, high);
  return linear_axis(low, high, ticks);
}

std::vector<ChartPoint> decimate(std::span<const ChartPoint> points, size_t buckets) {
  if (buckets == 0 || points.size() <= 2 * buckets) return {points.begin(), points.end()};
  std::vector<ChartPoint> kept;
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const size_t begin = bucket * points.size() / buckets, end = (bucket + 1) * points.size() / buckets;
    constexpr size_t kNone = std::numeric_limits<size_t>::max();
    size_t smallest = kNone, largest = kNone, gap = kNone;
    for (size_t i = begin; i < end; ++i) {
      if (!is_plottable(points[i].y)) {
        if (gap == kNone) gap = i;
        continue;
      }
      if (smallest == kNone || points[i].y < points[smallest].y) smallest = i;
      if (largest == kNone || points[i].y > points[largest].y) largest = i;
    }
    std::vector<size_t> indices{smallest, largest, gap};
    std::sort(indices.begin(), indices.end());
    indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
    for (const size_t i : indices) {
      if (i != kNone) kept.push_back(points[i]);
    }
  }
  return kept;
}

std::vector<ChartPoint> moving_average(std::span<const ChartPoint> points, size_t window) {
  std::vector<double> sums{0};
  std::vector<size_t> counts{0};
  for (const ChartPoint& point : points) {
    const bool has_value = is_plottable(point.y);
    sums.push_back(sums.back() + (has_value ? point.y : 0));
    counts.push_back(counts.back() + (has_value ? 1 : 0));
  }
  std::vector<ChartPoint> averages(points.begin(), points.end());
  const size_t half = window / 2;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!is_plottable(points[i].y)) continue;
    // Near the ends the window shrinks on both sides, because a one-sided mean would bend the curve. It keeps a minimum
    // width, because otherwise the ends would not be smoothed.
    const size_t reach = std::max(std::min({half, i, points.size() - 1 - i}), half / 4);
    const size_t begin = i < reach ? 0 : i - reach, end = std::min(points.size(), i + reach + 1);
    averages[i].y = (sums[end] - sums[begin]) / static_cast<double>(counts[end] - counts[begin]);
  }
  return averages;
}

std::string format_number(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  if (value == 0) return "0";
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits);
  std::string text(buffer, result.ptr);
  const size_t exponent = text.find('e');  // converts "3e-07" to "3e-7", and "3e+07" to "3e7"
  if (exponent == std::string::npos) return text;
  const bool negative = text[exponent + 1] == '-';
  const size_t power = text.find_first_not_of("+-0", exponent + 1);
  return text.substr(0, exponent) + (negative ? "e-" : "e") + text.substr(power);
}

std::vector<std::string> tick_labels(const Axis& axis, bool percent) {
  std::vector<std::string> labels;
  const double scale = percent ? 100 : 1;
  if (axis.logarithmic) {
    for (const double tick : axis.ticks) labels.push_back(power_of_ten_label(tick * scale) + (percent ? " %" : ""));
    return labels;
  }
  const double step = (axis.ticks.size() > 1 ? axis.ticks[1] - axis.ticks[0] : 1) * scale;
  const double magnitude = std::max(std::fabs(axis.low), std::fabs(axis.high)) * scale;
  for (const double tick : axis.ticks) {
    const double value = tick * scale;
    std::string label;
    if (magnitude < 1e-3 || magnitude >= 1e9) {
      label = format_number(std::fabs(value) < step / 2 ? 0 : value, 3);
    } else if (magnitude >= 1e4) {
      const bool millions = magnitude >= 1e6;
      const double unit = millions ? 1e6 : 1e3;
      label =
          std::fabs(value) < step / 2 ? "0" : fixed(value / unit, decimals_for(step / unit)) + (millions ? " M" : " k");
    } else {
      label = fixed(value, decimals_for(step));
    }
    labels.push_back(label + (percent ? " %" : ""));
  }
  return labels;
}

}  // namespace keel
