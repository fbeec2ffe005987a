#include "libs/mathverify/extract_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "libs/mathverify/algebra/enclosure.h"
#include "libs/mathverify/compare/value.h"
#include "libs/mathverify/parse/characters.h"
#include "libs/mathverify/parse/units.h"
#include "libs/mathverify/verifier.h"

namespace keel {
namespace {

using namespace math;

bool is_among(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

std::optional<double> decimal(const std::string& text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> constant_value(Algebra& algebra, const Form& form) {
  constexpr int kBits = 96;  // fractional bits
  if (algebra.has_variables(form) || algebra.contains_imaginary(form.numerator) ||
      algebra.contains_imaginary(form.denominator))
    return std::nullopt;
  const std::optional<double> value = decimal(Numeric(algebra, kBits).evaluate(form).real.low.to_string());
  return value ? std::optional(std::ldexp(*value, -kBits)) : std::nullopt;
}

/// The value of a formula. The inner optional is empty if it is not a number, the outer one if it is not a formula.
std::optional<std::optional<double>> formula_value(const std::string& ascii) {
  Budget budget(kMaxMathSteps);
  Algebra algebra(budget);
  NodePointer node;
  try {
    node = parse_math(tokenize(ascii));
  } catch (const Undecided&) {
    return std::nullopt;
  }
  try {
    const Value value = Evaluator(algebra).evaluate(*node);
    if (value.kind != Value::Kind::kScalar || value.is_time) return std::optional<double>();
    return constant_value(algebra, value.form);
  } catch (const Undecided&) {
    return std::optional<double>();
  }
}

/// An unsigned number in a text.
struct NumberSpan {
  size_t begin = 0, end = 0;
  double value = 0;
};

/// Parses 12, 1,234.5, 1 234, .5 or 1.5e3 at `begin`.
std::optional<NumberSpan> parse_number_at(std::string_view text, size_t begin) {
  size_t at = begin;
  std::string number;
  const auto peek = [&](size_t i) { return at + i < text.size() ? text[at + i] : '\0'; };
  const auto take_digits = [&] {
    while (is_digit(peek(0))) number += text[at++];
  };
  take_digits();
  const char separator = number.size() <= 3 ? peek(0) : '\0';
  const auto has_group = [&] {
    return peek(0) == separator && is_digit(peek(1)) && is_digit(peek(2)) && is_digit(peek(3)) && !is_digit(peek(4));
  };
  while (!number.empty() && is_among(separator, ", ") && has_group()) {
    ++at;
    take_digits();
  }
  if (peek(0) == '.' && is_digit(peek(1))) {
    number += text[at++];
    take_digits();
  }
  const size_t sign = peek(1) == '-' || peek(1) == '+' ? 1 : 0;
  if (is_among(peek(0), "eE") && is_digit(peek(1 + sign))) {
    number += 'e';
    if (peek(1) == '-') number += '-';
    at += 1 + sign;
    take_digits();
  }
  const std::optional<double> value = decimal(number);
  return value ? std::optional(NumberSpan{begin, at, *value}) : std::nullopt;
}

std::vector<NumberSpan> find_numbers(std::string_view text) {
  std::vector<NumberSpan> numbers;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool is_point = text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1]);
    if (!is_digit(text[at]) && !is_point) continue;
    const std::optional<NumberSpan> number = parse_number_at(text, at);
    if (!number) return {};  // does not fit a double
    numbers.push_back(*number);
    at = number->end - 1;
  }
  return numbers;
}

/// True if the text after a number continues the formula: "3x", "3 + x", "3^2", "3!", but not "3 cm", "3rd" and "3.".
bool is_continued(std::string_view rest) {
  if (rest.empty() || rest.starts_with("\\%") || rest.starts_with("^\\circ") || rest.starts_with("^{\\circ}"))
    return false;
  if (is_letter(rest[0])) {
    const std::string word(rest.begin(), std::find_if_not(rest.begin(), rest.end(), is_letter));
    const bool is_ordinal = word == "st" || word == "nd" || word == "rd" || word == "th";
    return !is_ordinal && !is_unit_symbol(word);
  }
  if (is_among(rest[0], ".,:") && rest.size() > 1) return is_digit(rest[1]);
  if (!is_among(rest[0], " .,;:?)]\"'%\x01")) return true;
  const size_t next = rest.find_first_not_of(' ');
  return next != std::string_view::npos && is_among(rest[next], "+-*/^_=<>!\\(");
}

/// The sign of a number from the text before it; nullopt if it is part of something larger: "x_2", "4 - 2", "f(2)".
std::optional<double> sign_before(std::string_view before) {
  const auto strip_trailing = [&](std::string_view marks) {
    while (!before.empty() && is_among(before.back(), marks)) before.remove_suffix(1);
  };
  strip_trailing("$\\");
  const bool is_negative = before.ends_with('-'), is_signed = is_negative || before.ends_with('+');
  if (is_signed) before.remove_suffix(1);
  if (before.size() > 1 && before.back() == ':' && is_digit(before[before.size() - 2])) return std::nullopt;  // 11:30
  const bool is_separate = before.empty() || is_among(before.back(), " \x01:=\"'#");
  if (is_signed && !is_separate && !is_among(before.back(), "([")) return std::nullopt;
  strip_trailing(" ([$\\");
  if (before.empty()) return is_negative ? -1 : 1;
  const char last = before.back();
  if (is_among(last, "+-*/^_<>{|")) return std::nullopt;
  if (!is_separate && (is_letter(last) || is_digit(last) || is_among(last, ".,"))) return std::nullopt;
  return is_negative ? -1 : 1;
}

/// Strips the stars of **bold** but keeps 2**5.
std::string strip_bold_stars(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool opens = i == 0 || is_among(text[i - 1], " (\n");
    const bool closes = i + 2 >= text.size() || is_among(text[i + 2], " .,;:!?)\n");
    const bool is_bold = text.substr(i).starts_with("**") && opens != closes;
    if (is_bold)
      ++i;
    else
      plain += text[i];
  }
  return plain;
}

/// Strips a leading conjunction: "So x = 12".
std::string strip_lead_word(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  for (const std::string_view word : {"So", "Thus", "Hence", "Then", "Therefore"})
    if (const size_t end = begin + word.size(); text.compare(std::min(begin, text.size()), word.size(), word) == 0)
      if (end < text.size() && is_among(text[end], " ,")) return text.substr(end + 1);
  return text;
}

/// The last number of a sentence; a fraction counts as one number.
std::optional<double> last_number(std::string_view text) {
  std::vector<NumberSpan> numbers = find_numbers(text);
  if (numbers.empty()) return std::nullopt;
  NumberSpan last = numbers.back();
  numbers.pop_back();
  if (!numbers.empty() && numbers.back().end + 1 == last.begin && text[last.begin - 1] == '/') {
    last = {numbers.back().begin, last.end, numbers.back().value / last.value};
    numbers.pop_back();
    if (!numbers.empty() && numbers.back().end + 1 == last.begin && text[last.begin - 1] == ' ')  // 3 1/2
      last = {numbers.back().begin, last.end, numbers.back().value + last.value};
  }
  const std::string_view before = text.substr(0, last.begin);
  if (is_continued(text.substr(last.end)) || !std::isfinite(last.value)) return std::nullopt;
  const std::optional<double> sign = sign_before(before);
  return sign ? std::optional(*sign * last.value) : std::nullopt;
}

}  // namespace

std::optional<double> extract_number(std::string_view answer) {
  try {
    const std::string ascii = strip_lead_word(to_ascii(strip_bold_stars(answer)));
    const std::optional<std::optional<double>> value = formula_value(ascii);
    return value ? *value : last_number(ascii);
  } catch (const Undecided&) {  // too long
    return std::nullopt;
  }
}

}  // namespace keel
