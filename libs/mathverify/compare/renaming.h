#pragma once

#include "libs/mathverify/parse/parser.h"

namespace keel::math {

/// The answer with the gold's names for letters that stand for any number of a kind: the constant of integration (c for
/// C) and the whole number in a period (k pi for n pi). Nothing where there are none, or where a letter may be one of
/// the problem's.
NodePointer with_names_of(const Node& gold, const Node& answer);

}  // namespace keel::math
