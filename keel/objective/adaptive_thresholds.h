#pragma once

#include "keel/core/thresholds.h"
#include "keel/objective/methods.h"

namespace keel {

struct AdaptOptions {
  double rate = 1;    // rate in delta *= exp(rate * error of the kept fraction)
  double min = 1e-4;  // lower bound of the threshold
  double max = 1;     // upper bound of the threshold; a total variation is at most 1
};

/// The next threshold of a trust region that should keep the fraction `target_kept` of its tokens:
/// delta exp(rate (target - observed)), clamped to [min, max]. A pure function.
///
/// The update is multiplicative, because useful thresholds span orders of magnitude. At the target it returns delta
/// unchanged, to the bit. It converges if the kept fraction grows with delta and rate * d kept / d log delta is below
/// 2; above 2 it overshoots. With an unreachable target it ends at a bound. A NaN fraction (no valid token) keeps
/// delta.
double adapt_delta(double delta, double observed_kept, double target_kept, const AdaptOptions& options = {});

/// Reads and writes the thresholds "low" and "high". make_objective() checks that an adapted region has both.
Thresholds get_thresholds(const TrustRegion& region);
void set_thresholds(Objective& objective, const Thresholds& thresholds);

/// The thresholds of the next step, after a step with the fraction `kept` of tokens inside the region. They stay within
/// [1e-4, 1], which is extended to include the initial thresholds `start`.
Thresholds adapt_thresholds(const Objective& objective, const Thresholds& start, double kept);

}  // namespace keel
