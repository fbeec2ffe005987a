#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace keel::jinja {

struct NumberLiteral {
  size_t length = 0;  // 0: not a number
  bool is_float = false, overflow = false;
  int64_t integer = 0;
  double number = 0;
};

/// Parses the number at the start of `text`: 12, 1_000, 0x1f, 0b1, 0o7, 1.5, 2e-3. Only integers if `after_dot`.
NumberLiteral read_number(std::string_view text, bool after_dot);

/// Evaluates a Python string literal without its quotes. Returns false and sets `problem` if it is invalid.
bool unescape(std::string_view literal, std::string& value, std::string& problem);

}  // namespace keel::jinja
