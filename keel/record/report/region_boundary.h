#pragma once

#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/record/charts/chart_scale.h"

namespace keel {

/// Where, in the plane of mu (x) and pi (y), a method begins to hold tokens of one sign of advantage back.
struct BoundaryCurve {
  bool positive = true;    // of tokens with A > 0, else with A < 0
  bool held_above = true;  // those with a larger pi are held back, else those with a smaller one
  std::vector<ChartPoint> points;
};

/// The trust region of a method as far as it can be drawn in that plane; no curves where it cannot.
struct RegionBoundary {
  std::vector<BoundaryCurve> curves;
  std::string words;  // what the curves are, or why there are none
};

/// By the method's name and its parameters as token records have them (null: no limit).
RegionBoundary region_boundary(const std::string& method, const Json& parameters);

}  // namespace keel
