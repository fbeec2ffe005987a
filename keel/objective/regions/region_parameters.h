#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/json.h"
#include "keel/objective/regions/trust_region.h"

namespace keel {

/// Sets a parameter to a number, an enum name, a boolean, or null (no limit). Errors name the `method`.
void set_parameter(TrustRegion& region, const std::string& method, const std::string& name, const Json& value);

/// Resolves aliases of parameter names: C and c mean ratio_cap, as in the papers.
std::string parameter_name(const std::string& name);

/// Returns whether a parameter has an effect: k and support need a top-K divergence.
bool has_effect(const TrustRegion& region, const std::string& name);

/// Returns a parameter that contradicts the others, if any.
std::optional<InvalidParameter> check_parameters(const TrustRegion& region);

/// Returns a parameter that contradicts this sequence length, if any.
std::optional<InvalidParameter> check_length(const TrustRegion& region, double valid_tokens);

/// The names of all parameters, in the order of the region.
std::vector<std::string> parameter_names(const TrustRegion& region);

/// The names and values of the number parameters, and of the enum parameters.
std::vector<std::pair<std::string, double>> number_parameters(const TrustRegion& region);
std::vector<std::pair<std::string, std::string>> choice_parameters(const TrustRegion& region);

}  // namespace keel
