#include "keel/core/options/yaml_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

template <size_t N>
bool contains(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

constexpr std::array<std::string_view, 5> kNull{"", "~", "null", "Null", "NULL"};
constexpr std::array<std::string_view, 3> kTrue{"true", "True", "TRUE"};
constexpr std::array<std::string_view, 3> kFalse{"false", "False", "FALSE"};
constexpr std::array<std::string_view, 3> kInfinity{".inf", ".Inf", ".INF"};
constexpr std::array<std::string_view, 3> kNotANumber{".nan", ".NaN", ".NAN"};

/// Removes the digits at the start of `text` and returns their number.
size_t skip_digits(std::string_view& text) {
  const size_t count = static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
  text.remove_prefix(count);
  return count;
}

bool skip_sign(std::string_view& text) {
  if (text.empty() || (text[0] != '-' && text[0] != '+')) return false;
  text.remove_prefix(1);
  return true;
}

bool is_integer(std::string_view text) {
  skip_sign(text);
  return skip_digits(text) > 0 && text.empty();
}

/// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
bool is_float(std::string_view text) {
  skip_sign(text);
  size_t digits = skip_digits(text);
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    digits += skip_digits(text);
  }
  if (digits == 0) return false;
  if (text.empty()) return true;
  if (text[0] != 'e' && text[0] != 'E') return false;
  text.remove_prefix(1);
  skip_sign(text);
  return skip_digits(text) > 0 && text.empty();
}

/// Parses all of `text` as a T. Removes a leading '+', which from_chars does not accept.
template <class T, class... Base>
bool parse_number(std::string_view text, T& number, Base... base) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base...);
  return error == std::errc() && end == text.data() + text.size();
}

Json parse_integer(std::string_view text, const std::string& location) {
  std::string_view digits = text;
  skip_sign(digits);
  const bool may_be_octal =
      digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string_view::npos;
  if (may_be_octal)
    fail(ExitCode::kBadConfiguration, location, ": got ", text,
         ", which is octal in YAML 1.1 (TRL, verl) and decimal in YAML 1.2; ",
         "write it without the leading zero, or with 0o if it is octal");
  if (int64_t number = 0; parse_number(text, number)) return number;
  if (uint64_t number = 0; parse_number(text, number)) return number;
  fail(ExitCode::kBadConfiguration, location, ": got ", text, ", expected an integer that fits 64 bits");
}

Json parse_float(std::string_view text, const std::string& location) {
  if (double number = 0; parse_number(text, number) && std::isfinite(number)) return number;
  fail(ExitCode::kBadConfiguration, location, ": got ", text, ", expected a number that fits 64-bit floating point");
}

}  // namespace

bool is_number_text(std::string_view text) { return is_integer(text) || is_float(text); }

Json plain_scalar(std::string_view text, const std::string& location) {
  if (contains(text, kNull)) return nullptr;
  if (contains(text, kTrue)) return true;
  if (contains(text, kFalse)) return false;
  if (is_integer(text)) return parse_integer(text, location);
  if (is_float(text)) return parse_float(text, location);
  uint64_t number = 0;
  if (text.starts_with("0x") && parse_number(text.substr(2), number, 16)) return number;
  if (text.starts_with("0o") && parse_number(text.substr(2), number, 8)) return number;
  std::string_view unsigned_text = text;
  skip_sign(unsigned_text);
  if (contains(unsigned_text, kInfinity) || contains(text, kNotANumber)) {
    fail(ExitCode::kBadConfiguration, location, ": got ", text, ", expected a finite number");
  }
  return std::string(text);
}

namespace {

/// Quotes all but strings that every YAML reader reads as strings, YAML 1.1 included (`yes`, `1:30`).
bool needs_quotes(const std::string& text) {
  static constexpr std::array<std::string_view, 6> kYaml11Booleans{"y", "n", "yes", "no", "on", "off"};
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto is_safe = [&](char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '/' || c == '-'; };
  if (text.empty() || !(is_letter(text[0]) || text[0] == '/')) return true;
  if (!std::all_of(text.begin(), text.end(), is_safe)) return true;
  std::string lower = text;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return contains(lower, kYaml11Booleans) || !plain_scalar(lower, "").is_string();
}

/// Formats a string. A JSON string is a valid double-quoted YAML string, also with the escapes of escape_controls().
/// Invalid UTF-8 becomes U+FFFD instead of an exception.
std::string yaml_string(const std::string& text) {
  return needs_quotes(text) ? escape_controls(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)) : text;
}

void write_mapping(const Json& mapping, const std::string& indent, std::string& out) {
  for (const auto& [key, value] : mapping.items()) {
    out += indent + yaml_string(key) + ":";
    if (value.is_object() && !value.empty()) {
      out += "\n";
      write_mapping(value, indent + "  ", out);
    } else {
      out += " " + yaml_inline(value) + "\n";
    }
  }
}

}  // namespace

std::string yaml_inline(const Json& value) {
  if (value.is_string()) return yaml_string(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, element] : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += yaml_string(key) + ": ";
    text += yaml_inline(element);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

std::string yaml_document(const Json& mapping) {
  std::string text;
  write_mapping(mapping, "", text);
  return text.empty() ? "{}\n" : text;
}

}  // namespace keel
