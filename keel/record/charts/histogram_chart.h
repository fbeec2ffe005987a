#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace keel {

/// How often numbers of each size came up, on logarithmic axes. One bar stands behind another of the same class.
struct HistogramChart {
  std::string id, title, description;
  double first = 1, ratio = 10;                     // where the first class begins, and how many times as far it ends
  std::vector<int64_t> behind = {}, in_front = {};  // of each class; in_front may be empty
  std::vector<double> thresholds = {};              // upright lines
  std::string threshold_name = "threshold";
};

/// A whole <svg> element; empty where nothing was counted.
std::string svg_histogram(const HistogramChart& histogram);

}  // namespace keel
