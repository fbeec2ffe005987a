#include "libs/hftext/jinja/objects/convert.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "libs/hftext/jinja/objects/callables.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {
namespace {

/// Joins repr() of the items with commas.
template <class Items, class Write>
std::string joined_items(Runtime& runtime, const Items& items, Write write) {
  std::string result;
  for (const auto& item : items) {
    if (!result.empty()) result += ", ";
    result += write(item);
    runtime.check_text(result.size());
  }
  runtime.step_copy(result.size());  // each enclosing value copies it again
  return result;
}

std::string repr_dict(Runtime& runtime, const Dict& dict) {
  return "{" +
         joined_items(runtime, dict.items,
                      [&](const auto& item) { return repr(runtime, item.first) + ": " + repr(runtime, item.second); }) +
         "}";
}

std::string repr_view(Runtime& runtime, const View& view) {
  const auto write = [&](const std::pair<Value, Value>& item) {
    if (view.of == View::Of::kKeys) return repr(runtime, item.first);
    if (view.of == View::Of::kValues) return repr(runtime, item.second);
    return "(" + repr(runtime, item.first) + ", " + repr(runtime, item.second) + ")";
  };
  constexpr const char* kNames[] = {"dict_keys", "dict_values", "dict_items"};
  return std::string(kNames[static_cast<size_t>(view.of)]) + "([" + joined_items(runtime, view.dict->items, write) +
         "])";
}

std::string repr_object(Runtime& runtime, const Value& value) {
  const Runtime::NestingGuard guard(runtime);
  const auto write = [&](const Value& item) { return repr(runtime, item); };
  if (const auto* sequence = value.as<Sequence>()) {
    const std::string items = joined_items(runtime, sequence->items, write);
    if (sequence->is_list()) return "[" + items + "]";
    return "(" + items + (sequence->items.size() == 1 ? ",)" : ")");
  }
  if (const auto* dict = value.as<Dict>()) return repr_dict(runtime, *dict);
  if (const auto* space = value.as<Namespace>()) return "<Namespace " + repr_dict(runtime, space->attributes) + ">";
  if (const auto* view = value.as<View>()) return repr_view(runtime, *view);
  if (const auto* range = value.as<Range>()) {
    const std::string step = range->step == 1 ? "" : ", " + std::to_string(range->step);
    return "range(" + std::to_string(range->start) + ", " + std::to_string(range->stop) + step + ")";
  }
  if (const auto* macro = value.as<Macro>()) {
    return "<Macro " + (macro->signature.name.empty() ? "anonymous" : repr(macro->signature.name)) + ">";
  }
  if (auto* loop = value.as<Loop>()) {
    return "<LoopContext " + std::to_string(loop->index + 1) + "/" + std::to_string(loop->length(runtime)) + ">";
  }
  return "<" + std::string(type_name(value)) + ">";  // Python would print an address
}

std::string scalar_text(const Value& value) {
  if (value.is_undefined()) return "";
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.boolean() ? "True" : "False";
  return value.is_integer() ? std::to_string(value.integer()) : repr(value.number());
}

void append_escape(std::string& text, const char* format, char32_t code) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, format, static_cast<unsigned>(code));
  text += buffer;
}

}  // namespace

std::string repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t mark = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(mark + 1)).c_str());
  if (exponent >= -4 && exponent < 16) {
    const int digits = static_cast<int>(std::count_if(text.begin(), text.begin() + static_cast<long>(mark),
                                                      [](char c) { return c >= '0' && c <= '9'; }));
    char fixed[64];
    std::snprintf(fixed, sizeof fixed, "%.*f", std::max(digits - 1 - exponent, 1), number);
    return fixed;
  }
  char scientific[16];
  std::snprintf(scientific, sizeof scientific, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
  return std::string(text.substr(0, mark)) + scientific;
}

std::string repr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos,
             has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string result(1, quote);
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    if (code == static_cast<char32_t>(quote) || code == '\\') {
      result += {'\\', static_cast<char>(code)};
    } else if (code == '\n' || code == '\r' || code == '\t') {
      result += code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t";
    } else if (is_printable(code)) {
      append_code_point(result, code);
    } else {
      append_escape(result, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
    }
  }
  return result + quote;
}

std::string repr(Runtime& runtime, const Value& value) {
  runtime.step(value.is_float() ? kFloatSteps : 1);
  if (value.is_text()) runtime.step_characters(value.text().size());
  if (value.is_text()) return value.is_markup() ? "Markup(" + repr(value.text()) + ")" : repr(value.text());
  if (value.is_undefined()) return "Undefined";
  return value.object() != nullptr ? repr_object(runtime, value) : scalar_text(value);
}

TracedText to_text(Runtime& runtime, const Value& value) {
  if (value.is_text()) {
    runtime.step_copy(value.text().size());
    return value.traced();
  }
  if (value.object() == nullptr) {
    runtime.step(value.is_float() ? kFloatSteps : 1);
    return TracedText(scalar_text(value));
  }
  std::string text = repr(runtime, value);
  return TracedText(std::move(text), contains_untrusted(runtime, value));
}

bool contains_untrusted(Runtime& runtime, const Value& value) {
  runtime.step();
  if (value.is_text()) return value.traced().has_untrusted();
  if (value.object() == nullptr) return false;
  const Runtime::NestingGuard guard(runtime);
  const auto is_untrusted = [&](const Value& item) { return contains_untrusted(runtime, item); };
  if (const auto* sequence = value.as<Sequence>()) {
    return std::any_of(sequence->items.begin(), sequence->items.end(), is_untrusted);
  }
  const auto* dict = value.as<Dict>();
  if (const auto* space = value.as<Namespace>()) dict = &space->attributes;
  if (const auto* view = value.as<View>()) dict = view->dict;
  return dict != nullptr && std::any_of(dict->items.begin(), dict->items.end(), [&](const auto& item) {
           return is_untrusted(item.first) || is_untrusted(item.second);
         });
}

std::optional<int64_t> parse_integer(Runtime& runtime, std::string_view text, int base) {
  runtime.step_characters(text.size());
  std::string plain;
  bool digit_before = false;
  text = strip(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto has_mark = [&](char mark) { return text.size() > 1 && text[0] == '0' && (text[1] | 0x20) == mark; };
  const int marked_base = has_mark('x') ? 16 : has_mark('o') ? 8 : has_mark('b') ? 2 : 0;
  if (marked_base != 0 && (base == marked_base || base == 0)) {
    text.remove_prefix(2);
    base = marked_base;
    digit_before = true;  // 0x_f is allowed
  }
  const bool zeros_only = base == 0 && text.starts_with('0');
  if (base == 0) base = 10;
  for (const char c : text) {
    if (c == '_' && !digit_before) return std::nullopt;
    digit_before = c != '_';
    if (c != '_') plain += c;
  }
  if (!digit_before || plain.empty() || plain[0] == '-') return std::nullopt;
  if (zeros_only && plain.find_first_not_of('0') != std::string::npos) return std::nullopt;
  uint64_t result = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), result, base);
  if (end != plain.data() + plain.size() || error == std::errc::invalid_argument) return std::nullopt;
  const uint64_t limit = (uint64_t{1} << 63) - (negative ? 0 : 1);
  if (error != std::errc() || result > limit) runtime.fail("the integer ", text, " does not fit into 64 bits");
  return static_cast<int64_t>(negative ? 0 - result : result);
}

std::optional<double> parse_float(Runtime& runtime, std::string_view text) {
  runtime.step_characters(text.size());
  text = strip(text);
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit_at = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (text[i] == '_') {
      if (i == 0 || !digit_at(i - 1) || !digit_at(i + 1)) return std::nullopt;
    } else {
      plain += text[i];
    }
  }
  std::string_view unsigned_part = plain;
  if (unsigned_part.starts_with('-') || unsigned_part.starts_with('+')) unsigned_part.remove_prefix(1);
  std::string lower(unsigned_part);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  const bool named = lower == "inf" || lower == "infinity" || lower == "nan";
  const bool digits_only =
      lower.find_first_not_of("0123456789.e+-") == std::string::npos;  // no hexadecimal, no nan(...)
  if (plain.empty() || !(named || digits_only)) return std::nullopt;
  char* end = nullptr;
  const double result = std::strtod(plain.c_str(), &end);
  return end == plain.c_str() + plain.size() ? std::optional<double>(result) : std::nullopt;
}

TracedText escape_html(Runtime& runtime, const TracedText& text) {
  runtime.step_characters(text.size());
  constexpr std::string_view kCharacters = "&<>'\"", kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  TracedText result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.bytes().find_first_of(kCharacters, at), text.size());
    result.append(text, at, end);
    if (end == text.size()) break;
    result.append(kEntities[kCharacters.find(text.bytes()[end])], touches(text.untrusted(), end, end + 1));
    at = end + 1;
  }
  return result;
}

}  // namespace keel::jinja
