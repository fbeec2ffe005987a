#include "libs/hftext/jinja/objects/format_number.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {
namespace {

constexpr int64_t kMaxPrecision = 2000;

std::string sign_of(bool negative, const FormatSpec& spec) {
  if (negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

std::string grouped(const std::string& digits, char separator, size_t size) {
  std::string result;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) result += separator;
    result += digits[i];
  }
  return result;
}

/// Inserts separators before the decimal point.
std::string grouped_float(const std::string& text, char separator) {
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  return grouped(text.substr(0, end), separator, 3) + text.substr(end);
}

std::string digits_of(uint64_t value, unsigned base, bool capital) {
  std::string digits;
  do {
    digits += (capital ? "0123456789ABCDEF" : "0123456789abcdef")[value % base];
    value /= base;
  } while (value > 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string printed(const char* format, int precision, double value) {
  const int size = std::snprintf(nullptr, 0, format, precision, value);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, precision, value);
  text.pop_back();
  return text;
}

std::string magnitude_text(double value, const FormatSpec& spec) {
  const int precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
  const bool alternate = spec.alternate;
  switch (spec.type) {
    case 'e':
      return printed(alternate ? "%#.*e" : "%.*e", precision, value);
    case 'E':
      return printed(alternate ? "%#.*E" : "%.*E", precision, value);
    case 'f':
      return printed(alternate ? "%#.*f" : "%.*f", precision, value);
    case 'F':
      return printed(alternate ? "%#.*F" : "%.*F", precision, value);
    case 'g':
    case 'n':
      return printed(alternate ? "%#.*g" : "%.*g", std::max(precision, 1), value);
    case 'G':
      return printed(alternate ? "%#.*G" : "%.*G", std::max(precision, 1), value);
    case '%':
      return printed(alternate ? "%#.*f" : "%.*f", precision, value * 100) + "%";
    default:
      break;
  }
  if (spec.precision < 0) return repr(value);
  // Formats like g, but with at least one digit after the point; exponents start one digit earlier.
  const int digits = std::max(precision, 1);
  const std::string scientific = printed("%.*e", digits - 1, value);
  const size_t mark = scientific.find('e');
  if (mark == std::string::npos) return scientific;  // inf, nan
  const int exponent = std::atoi(scientific.c_str() + mark + 1);
  const bool fixed = exponent >= -4 && exponent < digits - 1;
  const std::string text = fixed ? printed("%.*f", digits - 1 - exponent, value) : scientific;
  const size_t end = std::min(text.find('e'), text.size());
  std::string mantissa = text.substr(0, end);
  if (mantissa.find('.') != std::string::npos) {
    mantissa.resize(mantissa.find_last_not_of('0') + 1);
    if (mantissa.back() == '.') mantissa.pop_back();
  }
  if (end == text.size() && mantissa.find('.') == std::string::npos) mantissa += ".0";
  return mantissa + text.substr(end);
}

}  // namespace

std::string pad(Runtime& runtime, std::string text, const FormatSpec& spec, char default_align, size_t sign_length) {
  const auto size = static_cast<int64_t>(code_point_count(text));
  if (spec.width <= size) return text;
  const auto missing = static_cast<size_t>(spec.width - size);
  runtime.check_text(missing);
  runtime.check_text(missing * spec.fill.size() + text.size());
  runtime.step_characters(missing);
  const auto padding = [&](size_t count) {
    std::string result;
    for (size_t i = 0; i < count; ++i) result += spec.fill;
    return result;
  };
  switch (spec.align != '\0' ? spec.align : default_align) {
    case '<':
      return text + padding(missing);
    case '^':
      return padding(missing / 2) + text + padding(missing - missing / 2);
    case '=':
      return text.substr(0, sign_length) + padding(missing) + text.substr(sign_length);
    default:
      return padding(missing) + text;
  }
}

std::string format_integer(Runtime& runtime, int64_t value, const FormatSpec& spec) {
  uint64_t magnitude = static_cast<uint64_t>(value);
  if (value < 0) magnitude = 0 - magnitude;
  const bool capital = spec.type == 'X';
  const unsigned base = spec.type == 'x' || capital ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
  std::string digits = digits_of(magnitude, base, capital);
  if (spec.precision > static_cast<int64_t>(digits.size())) {
    runtime.check_text(static_cast<size_t>(spec.precision));
    digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
  }
  if (spec.grouping != '\0') digits = grouped(digits, spec.grouping, base == 10 ? 3 : 4);
  std::string prefix = sign_of(value < 0, spec);
  if (spec.alternate && base != 10) prefix += std::string("0") + spec.type;
  return pad(runtime, prefix + digits, spec, '>', prefix.size());
}

std::string format_float(Runtime& runtime, double value, const FormatSpec& spec) {
  if (spec.precision > kMaxPrecision) runtime.fail("a precision of ", spec.precision, " digits is too large");
  runtime.step(static_cast<size_t>(std::max<int64_t>(spec.precision, 64)) / 8);
  const std::string sign = sign_of(std::signbit(value) && !std::isnan(value), spec);
  std::string text = magnitude_text(std::isnan(value) ? value : std::abs(value), spec);
  if (std::isnan(value)) text = spec.type == 'F' || spec.type == 'E' || spec.type == 'G' ? "NAN" : "nan";
  if (std::isnan(value) && spec.type == '%') text += "%";
  if (spec.grouping != '\0') text = grouped_float(text, spec.grouping);
  return pad(runtime, sign + text, spec, '>', sign.size());
}

}  // namespace keel::jinja
