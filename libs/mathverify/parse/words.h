#pragma once

#include <vector>

#include "libs/mathverify/parse/lexer.h"

namespace keel::math {

/// Numbers spelled in words become numbers: "twenty-one", "one hundred and five", "2.5 million", "two dozen",
/// "three quarters", "five and a half". Other words stay as they are.
std::vector<Token> with_numbers_for_words(std::vector<Token> tokens);

/// Signs for what an answer says in words, once its numbers are numbers: "x is at least 5", "5 out of 6", "101 in base
/// 2", "where k is an integer". All others stay as they are.
std::vector<Token> with_signs_for_phrases(std::vector<Token> tokens);

}  // namespace keel::math
