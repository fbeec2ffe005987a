#pragma once

#include <string>
#include <utility>
#include <vector>

#include "keel/core/str_cat.h"

namespace keel {

/// Properties of a region. A region overrides the defaults with `RegionProperties properties() const`.
struct RegionProperties {
  bool clips_ratio = false;  // "low" and "high" bound a ratio pi/mu (per token or sequence mean), not a divergence
  bool needs_sequence_advantage = false;        // all tokens of a sequence must have one advantage
  bool has_boundary = true;                     // tokens can be outside the region
  std::vector<std::string> tv_thresholds = {};  // parameters that are thresholds of a total variation
};

/// An invalid parameter and the reason. A region can define these checks:
///   std::optional<InvalidParameter> check_parameters() const;
///   std::optional<InvalidParameter> check_length(double valid_tokens) const;
/// check_length() takes the length of a sequence; if it fails for a length, it fails for all longer ones.
struct InvalidParameter {
  std::string parameter, reason;
};

template <class... Parts>
InvalidParameter invalid_parameter(std::string parameter, const Parts&... parts) {
  return {std::move(parameter), str_cat(parts...)};
}

/// A row of the table of methods. `Family` is a variant of the regions of one family, or of all regions.
template <class Family>
struct MethodRow {
  std::string name;
  std::string summary;
  std::string equation;  // g, the coefficient of grad log pi, and the condition that blocks a token
  std::string source;
  std::string advantage;    // an estimator of objective/advantage.h
  std::string aggregation;  // a kind of objective/aggregation.h
  Family region;
  std::string group = {};  // its heading in docs/methods.md; set by methods()
};

}  // namespace keel
