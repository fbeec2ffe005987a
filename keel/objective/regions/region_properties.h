#pragma once

#include <string>
#include <utility>
#include <vector>

#include "keel/core/written.h"

namespace keel {

/// What a region is, as far as others ask. It says so itself in `RegionProperties properties() const`; a region without
/// that function is as the defaults are.
struct RegionProperties {
  bool clips_ratio = false;  // its "low" and "high" bound pi/mu, of a token or of a sequence's mean, not a divergence
  bool weighs_whole_sequences = false;          // one weight for the sequence, whose tokens must share one advantage
  bool has_boundary = true;                     // a token can be outside of it
  std::vector<std::string> tv_thresholds = {};  // parameters that a mask holds a total variation against
};

/// A parameter that makes no sense beside the others, and why. A region that knows of one has a function that finds it:
///   std::optional<Contradiction> contradiction() const;
///   std::optional<Contradiction> too_long(double valid_tokens) const;
/// The second is asked about sequences; one that is too long stays so when it grows.
struct Contradiction {
  std::string parameter, reason;
};

/// With the parts, written one after the other, as the reason.
template <class... Parts>
Contradiction contradicting(std::string parameter, const Parts&... parts) {
  return {std::move(parameter), written(parts...)};
}

}  // namespace keel
