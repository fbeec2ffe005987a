#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "keel/core/json.h"

namespace keel {

/// How often numbers fell between limits: counts[i] of them are above limits[i - 1] and at most limits[i]; those of the
/// first have no other bound than `smallest`. Buckets at either end that nothing fell into are left out.
struct Histogram {
  std::vector<double> limits = {};
  std::vector<int64_t> counts = {};
  int64_t count = 0;
  double sum = 0, sum_of_squares = 0, smallest = 0, largest = 0;
};

Json to_json(const Histogram& histogram);
/// Nothing where it is none: what a file says may be anything.
std::optional<Histogram> parse_histogram(const Json& json);

}  // namespace keel
