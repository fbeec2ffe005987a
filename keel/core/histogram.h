#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "keel/core/json.h"

namespace keel {

/// Counts of values per bucket: counts[i] values are above limits[i - 1] and at most limits[i]. The first bucket has no
/// lower limit. Empty buckets at both ends are omitted.
struct Histogram {
  std::vector<double> limits = {};
  std::vector<int64_t> counts = {};
  int64_t count = 0;
  double sum = 0, sum_of_squares = 0, smallest = 0, largest = 0;
};

Json to_json(const Histogram& histogram);
/// Parses the JSON of an untrusted file. Returns nullopt if it is not a valid histogram.
std::optional<Histogram> parse_histogram(const Json& json);

}  // namespace keel
