#pragma once

#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/objective/trust_region.h"

namespace keel {

/// A region from a method's name and its parameters by name, numbers and words. Besides the table's rows it knows
/// ppo_clip, dppo_binary_tv and dppo_binary_kl, and C (or c) for ratio_cap. Unknown ones are errors (exit code 2).
TrustRegion make_region(const std::string& method, const Json& parameters);

/// Sets one parameter: a number, a word, a truth value for a switch, or null for "no limit". `method` is for the
/// message.
void set_parameter(TrustRegion& region, const std::string& method, const std::string& name, const Json& value);

/// Numbers and words, in the region's order.
std::vector<std::string> parameter_names(const TrustRegion& region);

}  // namespace keel
