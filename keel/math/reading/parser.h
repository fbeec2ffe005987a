#pragma once

#include <vector>

#include "keel/math/reading/lexer.h"
#include "keel/math/reading/node.h"

namespace keel::math {

/// Reads an answer in LaTeX or plain text. Undecided when it is not mathematics as far as this parser knows.
NodePointer parse_math(std::vector<Token> tokens);

}  // namespace keel::math
