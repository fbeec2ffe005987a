#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libs/mathverify/arithmetic/rational.h"

namespace keel::math {

struct Token {
  enum class Kind {
    kNumber,   // text is its digits; value its value
    kLetter,   // one letter: a variable
    kWord,     // several letters
    kCommand,  // \name, without the backslash
    kText,     // content of \text{...}
    kSymbol,   // one of + - * / ^ _ ( ) [ ] { } , ; : = < > | ! ' % & . ~, "\\" for the end of a matrix row, or a date
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text{};
  Rational value{};
  bool space_before = false;
  bool is_plain_integer = false;  // digits only: no separators, point or exponent
  bool is_based = false;          // a number with a base subscript: 1011_2
  bool is_spelled = false;        // a number in words: five
  bool is_upright = false;        // was in \text or \mathrm

  bool is(std::string_view symbol) const { return kind == Kind::kSymbol && text == symbol; }
  bool is_command(std::string_view name) const { return kind == Kind::kCommand && text == name; }
};

/// Longer texts are not parsed but compared as text.
constexpr size_t kMaxAnswer = 20'000;  // bytes

/// Converts Unicode characters (fullwidth digits, minus signs, fractions, superscripts, Greek) to ASCII or LaTeX. Drops
/// dollar signs that delimit formulas; one that means money becomes "\$". Unsupported characters become \x01. Throws
/// Undecided beyond kMaxAnswer.
std::string to_ascii(std::string_view utf8);

/// Tokenizes LaTeX or plain text; the last token is kEnd. Throws Undecided if the text is too long.
std::vector<Token> tokenize(std::string_view ascii);

}  // namespace keel::math
