#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/objective/trust_region.h"

namespace keel {

/// A region from a method's name and its parameters by name, numbers and words. Besides the table's rows it knows
/// ppo_clip, dppo_binary_tv and dppo_binary_kl, and C (or c) for ratio_cap. Unknown ones are errors (exit code 2), and
/// so are parameters that contradict one another.
TrustRegion make_region(const std::string& method, const Json& parameters);

/// Sets one parameter: a number, a word, a truth value for a switch, or null for "no limit". `method` is for the
/// message.
void set_parameter(TrustRegion& region, const std::string& method, const std::string& name, const Json& value);

/// The table's name of a parameter: C and c are the papers' names of ratio_cap.
std::string parameter_name(const std::string& name);

/// A parameter that makes no sense beside the region's others, and why.
struct Contradiction {
  std::string parameter, reason;
};
std::optional<Contradiction> contradiction(const TrustRegion& region);

/// Whether the region's thresholds, "low" and "high" where it has them, are bounds of the ratio pi/mu (of a token, or of
/// a sequence's mean), and not of a divergence.
bool clips_ratio(const TrustRegion& region);

/// Numbers and words, in the region's order.
std::vector<std::string> parameter_names(const TrustRegion& region);

}  // namespace keel
