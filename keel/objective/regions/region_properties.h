#pragma once

#include <string>
#include <utility>
#include <vector>

#include "keel/core/str_cat.h"

namespace keel {

/// What others ask of a region; a region overrides the defaults with `RegionProperties properties() const`.
struct RegionProperties {
  bool clips_ratio = false;  // its "low" and "high" bound pi/mu, of a token or of a sequence's mean, not a divergence
  bool one_weight_per_sequence = false;         // one weight for the sequence, whose tokens must share one advantage
  bool has_boundary = true;                     // a token can be outside of it
  std::vector<std::string> tv_thresholds = {};  // parameters that a mask holds a total variation against
};

/// A parameter that makes no sense beside the others, and why. A region that knows of one has a function that finds it:
///   std::optional<InvalidParameter> check_parameters() const;
///   std::optional<InvalidParameter> check_length(double valid_tokens) const;
/// The second is asked about sequences; one that is too long stays so when it grows.
struct InvalidParameter {
  std::string parameter, reason;
};

/// With the parts, written one after the other, as the reason.
template <class... Parts>
InvalidParameter invalid_parameter(std::string parameter, const Parts&... parts) {
  return {std::move(parameter), str_cat(parts...)};
}

/// A named row of the table of methods: what people call it, and what it is made of. `Family` is the variant of the
/// regions that it may be made of: those of one family beside their maths, all of them in the table.
template <class Family>
struct MethodRow {
  std::string name;
  std::string summary;
  std::string equation;  // g, the weight of grad log pi, and what is blocked
  std::string source;
  std::string advantage;    // a word of objective/advantage.h
  std::string aggregation;  // a word of objective/aggregation.h
  Family region;
};

}  // namespace keel
