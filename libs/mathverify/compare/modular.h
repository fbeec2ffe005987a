#pragma once

#include "libs/mathverify/algebra/algebra.h"
#include "libs/mathverify/parse/parser.h"

namespace keel::math {

/// Whether two expressions of numbers, variables, + - * / and whole powers agree at several points modulo 2^61 - 1
/// (Schwartz 1980, Zippel 1979): for polynomials whose expansion is too long to write down. False when the expressions
/// hold anything else. The points depend on both expressions; unequal polynomials of degree d pass with probability
/// below (d / 2^61)^4, and degrees above 2^30 are refused.
bool same_polynomials(const Node& a, const Node& b, Budget& budget);

}  // namespace keel::math
