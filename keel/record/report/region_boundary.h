#pragma once

#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/record/charts/chart_scale.h"

namespace keel {

/// The boundary in the plane of mu (x) and pi (y) beyond which a method blocks tokens of one sign of advantage.
struct BoundaryCurve {
  bool positive = true;     // for A > 0, else for A < 0
  bool masks_above = true;  // tokens with a larger pi are blocked, else those with a smaller pi
  std::vector<ChartPoint> points;
};

/// The trust region of a method in that plane; no curves if it cannot be drawn there.
struct RegionBoundary {
  std::vector<BoundaryCurve> curves;
  std::string caption;  // explains the curves, or why there are none
};

/// Computes the boundary from a method's name and its parameters in token records (null: no limit).
RegionBoundary region_boundary(const std::string& method, const Json& parameters);

}  // namespace keel
