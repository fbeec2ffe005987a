#include "keel/objective/adaptive_thresholds.h"

#include <algorithm>
#include <cmath>

#include "keel/core/error.h"
#include "keel/objective/regions/region_parameters.h"

namespace keel {
namespace {

double number(const TrustRegion& region, const char* wanted) {
  for (const auto& [name, value] : number_parameters(region))
    if (name == wanted) return value;
  fail(ExitCode::kInternal, "the trust region to adapt has no threshold \"", wanted, "\"");
}

}  // namespace

double adapt_delta(double delta, double observed_kept, double target_kept, const AdaptOptions& options) {
  if (!(options.rate >= 0 && options.min > 0 && options.min <= options.max))
    fail(ExitCode::kBadConfiguration, "an adaptive threshold has rate ", options.rate, ", min ", options.min, ", max ",
         options.max, "; expected rate >= 0 and 0 < min <= max");
  if (!(delta > 0))
    fail(ExitCode::kBadConfiguration, "an adaptive threshold starts at ", delta, "; expected a number above 0");
  const double error = std::isnan(observed_kept) ? 0 : target_kept - observed_kept;
  return std::clamp(delta * std::exp(options.rate * error), options.min, options.max);
}

Thresholds get_thresholds(const TrustRegion& region) { return {number(region, "low"), number(region, "high")}; }

void set_thresholds(Objective& objective, const Thresholds& thresholds) {
  set_parameter(objective.method.region, objective.method.name, "low", thresholds.low);
  set_parameter(objective.method.region, objective.method.name, "high", thresholds.high);
}

Thresholds adapt_thresholds(const Objective& objective, const Thresholds& start, double kept) {
  const auto next = [&](double delta, double started) {
    AdaptOptions options;
    options.min = std::min(options.min, started);
    options.max = std::max(options.max, started);
    return adapt_delta(delta, kept, *objective.target_kept, options);
  };
  const Thresholds now = get_thresholds(objective.method.region);
  return {next(now.low, start.low), next(now.high, start.high)};
}

}  // namespace keel
