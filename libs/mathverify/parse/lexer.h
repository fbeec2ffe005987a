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
    kWord,     // several letters in a row
    kCommand,  // \name, without the backslash
    kText,     // what stands in \text{...}
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
  bool is_upright = false;        // stood in \text or \mathrm

  bool is(std::string_view symbol) const { return kind == Kind::kSymbol && text == symbol; }
  bool is_command(std::string_view name) const { return kind == Kind::kCommand && text == name; }
};

/// Longer texts are no answers: they are compared as they stand.
constexpr size_t kMaxAnswer = 20'000;  // bytes

/// Spells what unicode writes in one character (fullwidth digits, a real minus, fractions, superscripts, Greek) the way
/// LaTeX or ASCII does, and drops dollar signs that delimit formulas. One that means money becomes "\$". Undecided
/// beyond kMaxAnswer.
std::string spelled_in_ascii(std::string_view utf8);

/// LaTeX or plain text as tokens, ending with kEnd. Undecided when it is too long to be an answer.
std::vector<Token> tokenize(std::string_view ascii);

}  // namespace keel::math
