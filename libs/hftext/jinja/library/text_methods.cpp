#include "libs/hftext/jinja/library/text_methods.h"

#include <algorithm>

#include "libs/hftext/characters/search.h"
#include "libs/hftext/jinja/objects/bound_arguments.h"
#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {
namespace {

/// One call of a str method. For Markup, arguments are escaped and the result stays Markup.
struct TextCall {
  Runtime& runtime;
  const Value& self;
  std::string_view name;
  const Arguments& arguments;

  const std::string& text() const { return self.text(); }
  Value result(TracedText text_result) const { return runtime.text(std::move(text_result), self.is_markup()); }
  /// The bytes [begin, end) of `self`.
  Value part(size_t begin, size_t end) const { return result(self.traced().part(begin, end)); }
  /// A string whose untrusted bytes are no longer known; untrusted if `self` has any.
  Value mixed(std::string bytes) const { return result(TracedText(std::move(bytes), self.traced().has_untrusted())); }
  TracedText escaped(const Value& value) const {
    return self.is_markup() && !value.is_markup() ? escape_html(runtime, value.traced()) : value.traced();
  }
  BoundArguments none() const { return BoundArguments(runtime, name, arguments, {}); }
  /// A required string argument.
  Value required_text(const BoundArguments& bound, size_t index) const {
    if (!bound.at(index).is_text()) {
      runtime.fail("argument ", index + 1, " of '", name, "' is ", type_name(bound.at(index)), "; it must be a string");
    }
    return bound.at(index);
  }
};

Value strip_method(const TextCall& call) {
  const BoundArguments bound(call.runtime, call.name, call.arguments, {""});
  const bool left = call.name != "rstrip", right = call.name != "lstrip";
  const std::string_view text = call.text();
  const std::optional<std::string> chars = bound.text(0);
  if (!chars) {
    const size_t begin = left ? leading_space(text) : 0, trailing = right ? trailing_space(text.substr(begin)) : 0;
    call.runtime.step_characters(begin + trailing);
    return call.part(begin, text.size() - trailing);
  }
  call.runtime.step_characters(text.size());
  const std::u32string codes = code_points(text), set = code_points(*chars);
  call.runtime.step_copy(codes.size() * set.size());
  const auto stripped = [&](char32_t c) { return set.find(c) != std::u32string::npos; };
  size_t begin = 0, end = codes.size();
  while (left && begin < end && stripped(codes[begin])) ++begin;
  while (right && end > begin && stripped(codes[end - 1])) --end;
  return call.part(byte_of_code_point(text, begin), byte_of_code_point(text, end));
}

Value pad_method(const TextCall& call) {
  const bool zeros = call.name == "zfill";
  const BoundArguments bound(call.runtime, call.name, call.arguments, {"", ""}, 1);
  TracedText fill(zeros ? "0" : " ");
  if (bound.has(1)) {
    if (zeros) call.runtime.fail("'zfill' takes one argument");
    fill = call.escaped(call.required_text(bound, 1));
    if (code_point_count(fill.bytes()) != 1) call.runtime.fail("'", call.name, "' expects one character to fill with");
  }
  const size_t size = *length(call.self);
  const int64_t width = bound.integer(0, 0);
  if (width <= static_cast<int64_t>(size)) return call.result(call.self.traced());
  const size_t missing = static_cast<size_t>(width) - size;
  call.runtime.check_text(missing);
  call.runtime.check_text(missing * fill.size() + call.text().size());
  call.runtime.step_characters(missing);
  const size_t sign = zeros && (call.text().starts_with('-') || call.text().starts_with('+')) ? 1 : 0;
  size_t left = zeros || call.name == "rjust" ? missing : 0;
  if (call.name == "center") left = missing / 2 + (missing & static_cast<size_t>(width) & 1);  // as CPython rounds
  TracedText result = call.self.traced().part(0, sign);
  for (size_t i = 0; i < left; ++i) result.append(fill);
  result.append(call.self.traced(), sign, call.text().size());
  for (size_t i = left; i < missing; ++i) result.append(fill);
  return call.result(std::move(result));
}

Value replace_method(const TextCall& call) {
  const BoundArguments bound(call.runtime, call.name, call.arguments, {"", "", ""}, 2);
  const std::string from = call.required_text(bound, 0).text();
  const TracedText to = call.escaped(call.required_text(bound, 1));
  int64_t remaining = bound.integer(2, -1);
  const std::string& text = call.text();
  TracedText result;
  size_t at = 0;
  call.runtime.step_search(text.size());
  const auto put = [&] {
    call.runtime.step();
    result.append(to);
    if (remaining > 0) --remaining;
    call.runtime.check_text(result);
  };
  const auto keep_until = [&](size_t end) { result.append(call.self.traced(), std::exchange(at, end), end); };
  if (from.empty()) {
    while (remaining != 0) {
      put();
      if (at >= text.size()) break;
      size_t next = at;
      next_code_point(text, next);
      keep_until(next);
    }
  }
  while (remaining != 0 && !from.empty()) {
    const size_t found = text::find(text, from, at);
    if (found == std::string::npos) break;
    keep_until(found);
    put();
    at += from.size();
  }
  keep_until(text.size());
  return call.result(std::move(result));
}

Value join_method(const TextCall& call) {
  const BoundArguments bound(call.runtime, call.name, call.arguments, {""}, 1);
  TracedText result;
  bool first = true;
  Value item;
  for (Cursor cursor(call.runtime, bound.at(0)); cursor.next(item); first = false) {
    if (!item.is_text() && !call.self.is_markup()) {
      call.runtime.fail("'join' joins strings, but an item is ", type_name(item), "; the filter |join takes any value");
    }
    if (!first) result.append(call.self.traced());
    result.append(item.is_text() ? call.escaped(item) : escape_html(call.runtime, to_text(call.runtime, item)));
    call.runtime.check_text(result);
  }
  return call.result(std::move(result));
}

/// True if a string is not empty and every character has the property.
bool all_are(const std::string& text, bool (*property)(char32_t)) {
  for (size_t at = 0; at < text.size();) {
    if (!property(next_code_point(text, at))) return false;
  }
  return !text.empty();
}

bool is_title_case(const std::string& text) {
  bool any = false, inside = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    const bool begins = is_upper(code) || is_title(code);
    if ((begins && inside) || (is_lower(code) && !inside)) return false;
    inside = begins || is_lower(code);
    any = any || inside;
  }
  return any;
}

std::optional<Value> predicate_method(const TextCall& call) {
  if (!call.name.starts_with("is")) return std::nullopt;
  const BoundArguments none = call.none();
  const std::string& text = call.text();
  if (call.name == "isascii") return call.self.text_ref()->ascii();
  call.runtime.step_characters(text.size());
  if (call.name == "isalpha") return all_are(text, is_alpha);
  if (call.name == "isdigit") return all_are(text, is_digit);
  if (call.name == "isdecimal") return all_are(text, is_decimal);
  if (call.name == "isnumeric") return all_are(text, is_numeric);
  if (call.name == "isalnum") return all_are(text, is_alnum);
  if (call.name == "isspace") return all_are(text, is_space);
  if (call.name == "istitle") return is_title_case(text);
  const Value plain = call.runtime.literal(text);
  return call_test(call.runtime, call.name.substr(2), plain, {});  // islower, isupper
}

std::optional<Value> case_method(const TextCall& call) {
  std::string (*convert)(std::string_view) = nullptr;
  if (call.name == "upper") convert = to_upper;
  if (call.name == "lower") convert = to_lower;
  if (call.name == "title") convert = to_title;
  if (call.name == "capitalize") convert = capitalize;
  if (call.name == "swapcase") convert = swap_case;
  if (convert == nullptr) return std::nullopt;
  const BoundArguments none = call.none();
  call.runtime.step_characters(call.text().size());
  return call.mixed(convert(call.text()));
}

Value remove_affix(const TextCall& call) {
  const BoundArguments bound(call.runtime, call.name, call.arguments, {""}, 1);
  const std::string affix = call.required_text(bound, 0).text();
  const std::string& text = call.text();
  if (call.name == "removeprefix") return call.part(text.starts_with(affix) ? affix.size() : 0, text.size());
  return call.part(0, text.size() - (text.ends_with(affix) ? affix.size() : 0));
}

Value expand_tabs(const TextCall& call) {
  const BoundArguments bound(call.runtime, call.name, call.arguments, {"tabsize"});
  const int64_t size = bound.integer(0, 8);
  call.runtime.step_characters(call.text().size());
  std::string result;
  int64_t column = 0;
  for (size_t at = 0; at < call.text().size();) {
    const char32_t code = next_code_point(call.text(), at);
    if (code == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      call.runtime.check_text(result.size() + static_cast<size_t>(spaces));
      result.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    } else {
      append_code_point(result, code);
      column = code == '\n' || code == '\r' ? 0 : column + 1;
    }
  }
  return call.mixed(std::move(result));
}

}  // namespace

Value call_text_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& arguments) {
  const TextCall call{runtime, self, name, arguments};
  step_arguments(runtime, arguments);
  if (name.ends_with("strip")) return strip_method(call);
  if (name == "center" || name == "ljust" || name == "rjust" || name == "zfill") return pad_method(call);
  if (name == "replace") return replace_method(call);
  if (name == "join") return join_method(call);
  if (name.starts_with("remove")) return remove_affix(call);
  if (name == "expandtabs") return expand_tabs(call);
  if (name == "format") return call.result(format_braces(runtime, self, arguments));
  if (name == "format_map") {
    const BoundArguments bound(runtime, name, arguments, {""}, 1);
    const auto* dict = bound.at(0).as<Dict>();
    if (dict == nullptr) runtime.fail("'format_map' expects a dict, got ", type_name(bound.at(0)));
    Arguments named;
    for (const auto& [key, value] : dict->items) {
      runtime.step();
      if (!key.is_text()) continue;
      runtime.step_copy(key.text().size());
      named.named.emplace_back(key.text(), value);
    }
    return call.result(format_braces(runtime, self, named));
  }
  if (const std::optional<Value> answer = predicate_method(call)) return *answer;
  if (const std::optional<Value> converted = case_method(call)) return *converted;
  if (const std::optional<Value> found = call_search_method(runtime, self, name, arguments)) return *found;
  if (const std::optional<Value> parts = call_split_method(runtime, self, name, arguments)) return *parts;
  runtime.fail("strings have no method '", name, "'");
}

}  // namespace keel::jinja
