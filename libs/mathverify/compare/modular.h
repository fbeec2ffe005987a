#pragma once

#include "libs/mathverify/algebra/algebra.h"
#include "libs/mathverify/parse/parser.h"

namespace keel::math {

/// Polynomial identity test (Schwartz 1980, Zippel 1979) for polynomials that are too long to expand: evaluates both
/// expressions at several points modulo 2^61 - 1. Returns false if they contain more than numbers, variables, + - * /
/// and integer powers. The points depend on both expressions. Unequal polynomials of degree d pass with probability
/// below (d / 2^61)^4; degrees above 2^30 are rejected.
bool polynomials_agree(const Node& a, const Node& b, Budget& budget);

}  // namespace keel::math
