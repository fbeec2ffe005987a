#include "libs/hftext/jinja/syntax/lexer_literals.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "libs/hftext/jinja/objects/python_str.h"

namespace keel::jinja {
namespace {

constexpr int kNotADigit = 99;

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return kNotADigit;
}

/// The end of the digits of `base` at `at`, with single underscores between them.
size_t digits_end(std::string_view text, size_t at, int base, bool leading_underscore = false) {
  size_t end = at;
  while (true) {
    const size_t digit = end + (end < text.size() && text[end] == '_' && (end > at || leading_underscore));
    if (digit >= text.size() || digit_value(text[digit]) >= base) return end;
    end = digit + 1;
  }
}

std::string without_underscores(std::string_view text) {
  std::string result(text);
  std::erase(result, '_');
  return result;
}

/// The end of the fraction and exponent after the digits; 0 if there is neither.
size_t float_end(std::string_view text, size_t digits) {
  size_t end = 0, at = digits;
  if (at < text.size() && text[at] == '.') {
    const size_t fraction = digits_end(text, at + 1, 10);
    if (fraction == at + 1) return 0;
    end = at = fraction;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    size_t exponent = at + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    const size_t exponent_end = digits_end(text, exponent, 10);
    if (exponent_end > exponent) end = exponent_end;
  }
  return end;
}

/// The Python escape of a character, without the backslash.
std::string escape_letters(char32_t code) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer,
                code < 0x100     ? "x%02x"
                : code < 0x10000 ? "u%04x"
                                 : "U%08x",
                static_cast<unsigned>(code));
  return buffer;
}

/// Parses the escape after a backslash and advances `at`.
bool unescape_one(std::string_view literal, size_t& at, std::string& value, std::string& problem) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
  const char letter = literal[at];
  if (letter == '\n') {
    ++at;
    return true;
  }
  if (const size_t found = kLetters.find(letter); found != std::string_view::npos) {
    value += kMeanings[found];
    ++at;
    return true;
  }
  if (digit_value(letter) < 8) {
    char32_t code = 0;
    for (int i = 0; i < 3 && at < literal.size() && digit_value(literal[at]) < 8; ++i, ++at) {
      code = code * 8 + static_cast<char32_t>(digit_value(literal[at]));
    }
    append_code_point(value, code);
    return true;
  }
  const size_t digit_count = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
  if (digit_count > 0) {
    char32_t code = 0;
    for (size_t i = 0; i < digit_count; ++i) {
      const int digit = at + 1 + i < literal.size() ? digit_value(literal[at + 1 + i]) : kNotADigit;
      if (digit >= 16) {
        problem = "\\";
        problem += letter;
        problem += " in a string needs " + std::to_string(digit_count) + " hexadecimal digits";
        return false;
      }
      code = code * 16 + static_cast<char32_t>(digit);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      problem = "\\" + std::string(literal.substr(at, 1 + digit_count)) + " in a string is not a Unicode character";
      return false;
    }
    append_code_point(value, code);
    at += 1 + digit_count;
    return true;
  }
  if (letter == 'N') {
    problem = "\\N{...} in a string is not supported; write the character itself";
    return false;
  }
  value += '\\';  // not an escape: the backslash stays
  if (static_cast<unsigned char>(letter) >= 0x80) {
    // Jinja first escapes such a character; the backslash then escapes that sequence's backslash.
    value += escape_letters(next_code_point(literal, at));
  }
  return true;
}

}  // namespace

NumberLiteral read_number(std::string_view text, bool after_dot) {
  NumberLiteral result;
  if (text.empty() || digit_value(text[0]) > 9) return result;
  const size_t digits = digits_end(text, 0, 10);
  const size_t end = after_dot ? 0 : float_end(text, digits);
  if (end > 0) {
    result.is_float = true;
    result.length = end;
    result.number = std::strtod(without_underscores(text.substr(0, end)).c_str(), nullptr);
    return result;
  }
  const char mark = text.size() > 1 ? static_cast<char>(text[1] | 0x20) : '\0';
  const int base = text[0] != '0' ? 10 : mark == 'b' ? 2 : mark == 'o' ? 8 : mark == 'x' ? 16 : 10;
  size_t begin = base == 10 ? 0 : 2;
  result.length = digits_end(text, begin, base, base != 10);
  if (base != 10 && result.length == 2) {  // "0x" without digits is a zero and a name
    begin = 0;
    result.length = 1;
  }
  if (base == 10 && text[0] == '0') result.length = digits_end(text, 0, 1);  // 012 is the two numbers 0 and 12
  const std::string plain = without_underscores(text.substr(begin, result.length - begin));
  const auto [stop, error] = std::from_chars(plain.data(), plain.data() + plain.size(), result.integer, base);
  result.overflow = error != std::errc() || stop != plain.data() + plain.size();
  return result;
}

bool unescape(std::string_view literal, std::string& value, std::string& problem) {
  for (size_t at = 0; at < literal.size();) {
    const char c = literal[at++];
    if (c != '\\') {
      value += c;
    } else if (at >= literal.size() || !unescape_one(literal, at, value, problem)) {
      if (problem.empty()) problem = "a string ends with a lone backslash";
      return false;
    }
  }
  return true;
}

}  // namespace keel::jinja
