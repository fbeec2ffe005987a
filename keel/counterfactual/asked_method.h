#pragma once

#include <string>
#include <vector>

#include "keel/objective/methods.h"

namespace keel {

/// A method that recorded tokens are judged by.
struct AskedMethod {
  std::string name;    // as it was asked for: "dppo_tv:high=0.2"
  std::string method;  // its row
  TrustRegion region;
};

/// Methods as a command line has them, separated by commas: NAME, or NAME:PARAMETER=VALUE,PARAMETER=VALUE. `delta` is
/// the method's one threshold or both of two, as objective.delta is. Unknown names, and one method twice, are errors
/// (exit code 2).
std::vector<AskedMethod> asked_methods(const std::vector<std::string>& texts);

/// The parameters that a threshold sets: delta, or low and high, or the one that the method has instead; none where it
/// has no threshold that moves alone.
std::vector<std::string> threshold_parameters(const TrustRegion& region);

}  // namespace keel
