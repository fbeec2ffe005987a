#pragma once

#include <vector>

#include "libs/mathverify/parse/lexer.h"
#include "libs/mathverify/parse/node.h"

namespace keel::math {

/// Reads an answer in LaTeX or plain text. Undecided when it is not mathematics as far as this parser knows.
NodePointer parse_math(std::vector<Token> tokens);

}  // namespace keel::math
