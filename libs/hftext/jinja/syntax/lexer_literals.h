#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace keel::jinja {

struct NumberLiteral {
  size_t length = 0;  // 0: no number here
  bool is_float = false, overflow = false;
  int64_t integer = 0;
  double number = 0;
};

/// The number at the beginning of `text`: 12, 1_000, 0x1f, 0b1, 0o7, 1.5, 2e-3. After a dot there are only integers.
NumberLiteral read_number(std::string_view text, bool after_dot);

/// The value of a string literal (without its quotes) in Python's notation; false and a sentence when it is wrong.
bool unescape(std::string_view literal, std::string& value, std::string& problem);

}  // namespace keel::jinja
