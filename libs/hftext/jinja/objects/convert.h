#pragma once

// Conversions as in Python: str(), repr(), json.dumps(), int() and float().

#include <optional>
#include <string>
#include <string_view>

#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

/// Python's str(). If a value other than a string contains an untrusted string, the whole result is untrusted.
TracedText to_text(Runtime& runtime, const Value& value);
/// True if the value is or contains a string that is at least partly untrusted.
bool contains_untrusted(Runtime& runtime, const Value& value);
std::string repr(Runtime& runtime, const Value& value);
std::string repr(double number);
inline constexpr size_t kFloatSteps = 8;  // cost of repr(double) in steps
std::string repr(std::string_view text);

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<std::string> indent;  // indentation per level; without it the output is one line
  std::string item_separator = ", ", key_separator = ": ";
};
/// json.dumps(), used by the filter tojson.
std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

/// Python's int(text, base) and float(text); nullopt where Python raises ValueError.
std::optional<int64_t> parse_integer(Runtime& runtime, std::string_view text, int base = 10);
std::optional<double> parse_float(Runtime& runtime, std::string_view text);

/// Replaces & < > ' " by HTML entities.
TracedText escape_html(Runtime& runtime, const TracedText& text);

}  // namespace keel::jinja
