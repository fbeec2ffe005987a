#pragma once

#include <cstdint>
#include <string>

#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

/// What stands between % or : and the letter of a format.
struct FormatSpec {
  std::string fill = " ";  // one character
  char align = '\0';       // < > ^ = or none
  char sign = '-';         // + or space: also before positive numbers
  bool alternate = false, zero = false;
  int64_t width = 0, precision = -1;
  char grouping = '\0';  // , or _
  char type = '\0';
};

/// Digits of an integer (d, x, X, o, b) with sign, prefix, grouping and padding.
std::string format_integer(Runtime& runtime, int64_t value, const FormatSpec& spec);
/// A float (e, f, g, % and their capitals; without a type as str() or, with a precision, about as g).
std::string format_float(Runtime& runtime, double value, const FormatSpec& spec);
/// A text brought to the width; numbers may put the padding after their sign.
std::string pad(Runtime& runtime, std::string text, const FormatSpec& spec, char default_align, size_t sign_length = 0);

}  // namespace keel::jinja
