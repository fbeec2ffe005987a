#pragma once

#include "libs/mathverify/parse/parser.h"

namespace keel::math {

/// Renames arbitrary constants in the answer to those of the gold: the constant of integration (c for C) and the
/// integer in a period (k pi for n pi). Returns nullptr if there are none, or if a letter may be a variable of the
/// problem.
NodePointer rename_to_match(const Node& gold, const Node& answer);

}  // namespace keel::math
