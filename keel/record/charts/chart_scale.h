#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace keel {

/// One value of a curve; a `y` that is not finite is a gap.
struct ChartPoint {
  double x = 0;
  double y = 0;
};

/// Finite and not so large that the difference of two values could overflow.
bool drawable(double value);

/// A range of values with the ticks to label it.
struct Axis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  std::vector<double> ticks;

  /// Place of a value on the axis: 0 at the low end, 1 at the high end.
  double place(double value) const;
};

/// An axis over [low, high] widened to round numbers, with about `ticks` ticks; equal ends get room on both sides.
Axis linear_axis(double low, double high, int ticks);

/// An axis in powers of ten over positive [low, high].
Axis logarithmic_axis(double low, double high);

/// The axis that shows the values best: logarithmic when allowed and nearly all are positive and they span a
/// hundredfold.
Axis axis_for(std::span<const double> values, bool may_be_logarithmic, int ticks);

/// At most about two points per bucket, the smallest and the largest of it, so that no spike is lost; gaps stay gaps.
std::vector<ChartPoint> decimate(std::span<const ChartPoint> points, size_t buckets);

/// Mean over a centred window of `window` points, fewer near the ends; gaps of the input stay gaps.
std::vector<ChartPoint> moving_average(std::span<const ChartPoint> points, size_t window);

/// The shortest decimal form with at most `digits` significant digits, never in the words of a locale.
std::string format_number(double value, int digits = 3);

/// Labels for ticks, all with the same number of decimals ("0.25", "0.50", "1 k", "1e-05"); percent multiplies by 100.
std::vector<std::string> tick_labels(const Axis& axis, bool percent);

}  // namespace keel
