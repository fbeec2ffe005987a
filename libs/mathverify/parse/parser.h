#pragma once

#include <vector>

#include "libs/mathverify/parse/lexer.h"
#include "libs/mathverify/parse/node.h"

namespace keel::math {

/// Parses an answer in LaTeX or plain text. Throws Undecided if it is not supported mathematics.
NodePointer parse_math(std::vector<Token> tokens);

}  // namespace keel::math
