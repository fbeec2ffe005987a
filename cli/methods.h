#pragma once

#include <string>
#include <vector>

#include "keel/objective/methods.h"

namespace keel::cli {

/// Describes a method: summary, equation, defaults, source.
std::string describe(const Method& method);

/// The names of all methods, in the order of the table.
std::vector<std::string> method_names();

}  // namespace keel::cli
