#include "keel/objective/adaptive_thresholds.h"

#include <algorithm>
#include <cmath>

#include "keel/core/error.h"
#include "keel/objective/regions/region_parameters.h"

namespace keel {
namespace {

double get_parameter(const TrustRegion& region, const char* threshold) {
  for (const auto& [name, value] : number_parameters(region))
    if (name == threshold) return value;
  fail(ExitCode::kInternal, "the trust region to adapt has no threshold \"", threshold, "\"");
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

Thresholds get_thresholds(const TrustRegion& region) {
  return {get_parameter(region, "low"), get_parameter(region, "high")};
}

void set_thresholds(Objective& objective, const Thresholds& thresholds) {
  set_parameter(objective.method.region, objective.method.name, "low", thresholds.low);
  set_parameter(objective.method.region, objective.method.name, "high", thresholds.high);
}

Thresholds adapt_thresholds(const Objective& objective, const Thresholds& start, double kept) {
  const auto next = [&](double delta, double initial) {
    AdaptOptions options;
    options.min = std::min(options.min, initial);
    options.max = std::max(options.max, initial);
    return adapt_delta(delta, kept, *objective.target_kept, options);
  };
  const Thresholds current = get_thresholds(objective.method.region);
  return {next(current.low, start.low), next(current.high, start.high)};
}

}  // namespace keel
