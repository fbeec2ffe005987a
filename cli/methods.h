#pragma once

#include <string>

#include "keel/objective/methods.h"

namespace keel::cli {

/// A method in full: sentence, equation, defaults, source.
std::string description(const Method& method);

}  // namespace keel::cli
