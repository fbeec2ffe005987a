#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/json.h"
#include "keel/objective/regions/trust_region.h"

namespace keel {

/// Sets a parameter: a number, a word, a truth value for a switch, or null (no limit). Errors name the `method`.
void set_parameter(TrustRegion& region, const std::string& method, const std::string& name, const Json& value);

/// The table's name of a parameter: C and c are the papers' names of ratio_cap.
std::string parameter_name(const std::string& name);

/// Whether a parameter has an effect: k and support have one only with a divergence over the k likeliest tokens.
bool has_effect(const TrustRegion& region, const std::string& name);

/// A parameter of the region that makes no sense beside its others.
std::optional<InvalidParameter> check_parameters(const TrustRegion& region);

/// A parameter that makes no sense beside a sequence of so many valid tokens.
std::optional<InvalidParameter> check_length(const TrustRegion& region, double valid_tokens);

/// Numbers and words, in the region's order.
std::vector<std::string> parameter_names(const TrustRegion& region);

/// The value of every number among them, by its name.
std::vector<std::pair<std::string, double>> number_parameters(const TrustRegion& region);

/// The same of every word.
std::vector<std::pair<std::string, std::string>> choice_parameters(const TrustRegion& region);

}  // namespace keel
