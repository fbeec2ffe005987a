#pragma once

#include "keel/core/thresholds.h"
#include "keel/objective/methods.h"

namespace keel {

/// Those of a region that has both; make_objective() lets no other be adapted.
Thresholds thresholds_of(const TrustRegion& region);
void set_thresholds(Objective& objective, const Thresholds& thresholds);

/// The thresholds of the next step, after one in which a share of `kept` tokens was inside the region. They move within
/// [1e-4, 1], widened as far as the thresholds that the run started with.
Thresholds adapted(const Objective& objective, const Thresholds& start, double kept);

}  // namespace keel
