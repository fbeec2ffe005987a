#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace keel {

/// A histogram on logarithmic axes with two bars per bin, one in front of the other.
struct HistogramChart {
  std::string id, title, description;
  double first = 1, ratio = 10;                           // lower edge of the first bin; upper edge / lower edge
  std::vector<int64_t> background = {}, foreground = {};  // counts per bin; foreground may be empty
  std::vector<double> thresholds = {};                    // vertical lines
  std::string threshold_name = "threshold";
};

/// Returns an <svg> element; empty if all counts are 0.
std::string svg_histogram(const HistogramChart& histogram);

}  // namespace keel
