#pragma once

#include <string>
#include <vector>

#include "keel/objective/methods.h"

namespace keel {

/// A method to evaluate on recorded tokens.
struct MethodSpec {
  std::string name;    // as on the command line: "dppo_tv:high=0.2"
  std::string method;  // row of the method table
  TrustRegion region;
};

/// Parses comma-separated methods of a command line: NAME, or NAME:PARAMETER=VALUE,PARAMETER=VALUE. As in
/// objective.delta, `delta` sets both low and high. An unknown or repeated method is an error (exit code 2).
std::vector<MethodSpec> parse_methods(const std::vector<std::string>& texts);

/// The parameters that hold the method's threshold: one of delta, threshold and eps, or low and high; empty if it has
/// none.
std::vector<std::string> threshold_parameters(const TrustRegion& region);

}  // namespace keel
