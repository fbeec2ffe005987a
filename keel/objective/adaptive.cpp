#include "keel/objective/adaptive.h"

#include <algorithm>
#include <cmath>

#include "keel/core/error.h"

namespace keel {

double adapt_delta(double delta, double observed_kept, double target_kept, const AdaptOptions& options) {
  if (!(options.rate >= 0 && options.min > 0 && options.min <= options.max))
    fail(ExitCode::kBadConfiguration, "an adaptive threshold has rate ", options.rate, ", min ", options.min, ", max ",
         options.max, "; wanted: rate >= 0 and 0 < min <= max");
  if (!(delta > 0)) fail(ExitCode::kBadConfiguration, "an adaptive threshold starts at ", delta, "; wanted: above 0");
  const double error = std::isnan(observed_kept) ? 0 : target_kept - observed_kept;
  return std::clamp(delta * std::exp(options.rate * error), options.min, options.max);
}

}  // namespace keel
