#pragma once

#include "keel/core/thresholds.h"
#include "keel/objective/methods.h"

namespace keel {

/// How fast and how far a threshold may move by itself.
struct AdaptOptions {
  double rate = 1;    // change of log delta for each unit of the kept share's error
  double min = 1e-4;  // the threshold never falls below this
  double max = 1;     // nor rises above this; a total variation cannot
};

/// The next threshold of a trust region that should keep a `target_kept` share of its tokens:
/// delta exp(rate (target - observed)), held within [min, max]. Pure: what it was told is all it knows.
///
/// Multiplicative, because useful thresholds span orders of magnitude, and exact at its fixed point: at the target
/// delta comes back to the bit. It never decreases in delta and target and never increases in `observed_kept`. A share
/// that grows with delta is led to the target wherever rate * d kept / d log delta stays below 2 (beyond, the steps
/// overshoot); an unreachable target ends at a bound. A NaN share (no token was judged) leaves delta where it is.
double adapt_delta(double delta, double observed_kept, double target_kept, const AdaptOptions& options = {});

/// Those of a region that has both; make_objective() lets no other be adapted.
Thresholds get_thresholds(const TrustRegion& region);
void set_thresholds(Objective& objective, const Thresholds& thresholds);

/// The thresholds of the next step, after one in which a share of `kept` tokens was inside the region. They move within
/// [1e-4, 1], widened as far as the thresholds that the run started with.
Thresholds adapt_thresholds(const Objective& objective, const Thresholds& start, double kept);

}  // namespace keel
