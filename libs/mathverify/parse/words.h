#pragma once

#include <vector>

#include "libs/mathverify/parse/lexer.h"

namespace keel::math {

/// Replaces numbers in words by number tokens: "twenty-one", "one hundred and five", "2.5 million", "two dozen", "three
/// quarters", "five and a half". Others are unchanged.
std::vector<Token> parse_number_words(std::vector<Token> tokens);

/// Replaces phrases by signs: "x is at least 5" by x >= 5, "5 out of 6" by 5/6, and so on. Calls parse_number_words()
/// itself. Other tokens are unchanged.
std::vector<Token> replace_phrases(std::vector<Token> tokens);

}  // namespace keel::math
