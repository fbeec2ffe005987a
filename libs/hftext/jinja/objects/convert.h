#pragma once

// Values to text and back: Python's str(), repr(), json.dumps() and float().

#include <optional>
#include <string>
#include <string_view>

#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

/// Python's str(): what printing a value gives. What is no text and has an untrusted one in it is untrusted as a whole.
TracedText to_text(Runtime& runtime, const Value& value);
/// Whether the value is or has in it a text that came, also in part, from outside the template.
bool contains_untrusted(Runtime& runtime, const Value& value);
std::string repr(Runtime& runtime, const Value& value);
std::string repr(double number);
inline constexpr size_t kFloatSteps = 8;  // what that counts: the shortest decimals of a double take some time
std::string repr(std::string_view text);

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<std::string> indent;  // one level of it; without it everything is on one line
  std::string item_separator = ", ", key_separator = ": ";
};
/// json.dumps(): what the filter tojson gives.
std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

/// Python's int(text, base) and float(text); nothing where those raise ValueError.
std::optional<int64_t> parse_integer(Runtime& runtime, std::string_view text, int base = 10);
std::optional<double> parse_float(Runtime& runtime, std::string_view text);

/// The characters & < > ' " as HTML entities.
TracedText escape_html(Runtime& runtime, const TracedText& text);

}  // namespace keel::jinja
