#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace keel {

/// One value of a curve. NaN and infinite `y` are gaps.
struct ChartPoint {
  double x = 0;
  double y = 0;
};

/// Returns whether the value is finite and differences of such values cannot overflow.
bool is_plottable(double value);

/// A range of values with the ticks to label it.
struct Axis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  std::vector<double> ticks;

  /// Position of a value on the axis, from 0 (low end) to 1 (high end).
  double position(double value) const;
};

/// A linear axis over [low, high], extended to round numbers, with about `ticks` ticks. Equal ends are extended on both
/// sides.
Axis linear_axis(double low, double high, int ticks);

/// An axis in powers of ten over positive [low, high].
Axis logarithmic_axis(double low, double high);

/// Chooses a logarithmic axis if it is allowed, at least 80 % of values are positive and they span a factor of 100;
/// else a linear one.
Axis choose_axis(std::span<const double> values, bool may_be_logarithmic, int ticks);

/// Keeps the minimum and maximum of each bucket, so that spikes stay visible. Gaps stay gaps.
std::vector<ChartPoint> decimate(std::span<const ChartPoint> points, size_t buckets);

/// Mean over a centred window of `window` points, fewer near the ends. Gaps stay gaps.
std::vector<ChartPoint> moving_average(std::span<const ChartPoint> points, size_t window);

/// The shortest decimal form with at most `digits` significant digits, independent of the locale.
std::string format_number(double value, int digits = 3);

/// Labels for ticks, all with the same number of decimals ("0.25", "0.50", "1 k", "1e-05"); percent multiplies by 100.
std::vector<std::string> tick_labels(const Axis& axis, bool percent);

}  // namespace keel
