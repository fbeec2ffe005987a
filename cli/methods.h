#pragma once

#include <string>
#include <vector>

#include "keel/objective/methods.h"

namespace keel::cli {

/// A method in full: sentence, equation, defaults, source.
std::string description(const Method& method);

/// Of all methods, in the order of the table.
std::vector<std::string> method_names();

}  // namespace keel::cli
