#pragma once

#include <vector>

#include "libs/mathverify/parse/lexer.h"

namespace keel::math {

/// Replaces numbers in words by number tokens: "twenty-one", "one hundred and five", "2.5 million", "two dozen", "three
/// quarters", "five and a half". Others are unchanged.
std::vector<Token> parse_number_words(std::vector<Token> tokens);

/// Replaces phrases by signs, after parse_number_words(): "x is at least 5", "5 out of 6", "101 in base 2", "where k is
/// an integer". Other tokens are unchanged.
std::vector<Token> replace_phrases(std::vector<Token> tokens);

}  // namespace keel::math
