#pragma once

#include <cstdint>
#include <string>

#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

/// A format specification: the part between % or : and the type.
struct FormatSpec {
  std::string fill = " ";  // one character
  char align = '\0';       // < > ^ = or none
  char sign = '-';         // + or space: for positive numbers
  bool alternate = false, zero = false;
  int64_t width = 0, precision = -1;
  char grouping = '\0';  // , or _
  char type = '\0';
};

/// Formats an integer (d, x, X, o, b) with sign, prefix, grouping and padding.
std::string format_integer(Runtime& runtime, int64_t value, const FormatSpec& spec);
/// Formats a float (e, f, g, % and upper case; without a type like str() or, with a precision, similar to g).
std::string format_float(Runtime& runtime, double value, const FormatSpec& spec);
/// Pads text to the width. Numbers may be padded after `sign_length` bytes.
std::string pad(Runtime& runtime, std::string text, const FormatSpec& spec, char default_align, size_t sign_length = 0);

}  // namespace keel::jinja
