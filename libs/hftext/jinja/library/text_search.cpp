// Methods of str that search or split.

#include <algorithm>
#include <span>

#include "libs/hftext/characters/search.h"
#include "libs/hftext/jinja/library/text_methods.h"
#include "libs/hftext/jinja/objects/bound_arguments.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {
namespace {

/// The part text[start:end] of a string, with optional bounds in code points.
struct Window {
  Window(Runtime& runtime, const Value& self, const BoundArguments& bound) : text(self.text()) {
    if (!bound.has(1) && !bound.has(2)) return;
    runtime.step_search(text.size());
    const auto size = static_cast<int64_t>(*length(self));
    const auto bound_or = [&](size_t index, int64_t default_value) {
      if (bound.at(index).is_none()) return default_value;
      const int64_t at = bound.integer(index, default_value);
      return at < 0 ? std::max<int64_t>(at + size, 0) : at;
    };
    start = bound_or(1, 0);
    const int64_t end = std::min(bound_or(2, size), size);
    valid = start <= size && start <= end;
    if (!valid) return;
    text.remove_prefix(byte_of_code_point(text, static_cast<size_t>(start)));
    text = text.substr(0, byte_of_code_point(text, static_cast<size_t>(end - start)));
  }
  int64_t start = 0;
  std::string_view text;
  bool valid = true;  // false if the end is before the start; such a part does not even contain ""
};

/// Same result as text.rfind(needle), in linear time.
size_t find_last(std::string_view text, std::string_view needle) {
  const std::string backwards(text.rbegin(), text.rend());
  const size_t found = text::find(backwards, std::string(needle.rbegin(), needle.rend()));
  return found == std::string::npos ? found : text.size() - found - needle.size();
}

const std::string& require_text(Runtime& runtime, std::string_view name, const Value& value) {
  if (value.is_undefined()) runtime.fail_undefined(value);
  if (!value.is_text()) runtime.fail("'", name, "' expects a string, got ", type_name(value));
  return value.text();
}

Value find(Runtime& runtime, const Window& window, std::string_view name, const std::string& needle) {
  const bool from_right = name.starts_with('r');
  const size_t at = !window.valid ? std::string::npos
                    : from_right  ? find_last(window.text, needle)
                                  : text::find(window.text, needle);
  if (at != std::string::npos) return window.start + static_cast<int64_t>(code_point_count(window.text.substr(0, at)));
  if (name.ends_with("index")) runtime.fail("'", name, "' did not find the text");
  return int64_t{-1};
}

Value count(Runtime& runtime, const Window& window, const std::string& needle) {
  if (!window.valid) return int64_t{0};
  if (needle.empty()) return static_cast<int64_t>(code_point_count(window.text)) + 1;
  int64_t found = 0;
  for (size_t at = text::find(window.text, needle); at != std::string::npos;
       at = text::find(window.text, needle, at + needle.size())) {
    runtime.step();
    ++found;
  }
  return found;
}

Value has_affix(Runtime& runtime, const Window& window, std::string_view name, const Value& affixes) {
  const bool several = affixes.is(ObjectKind::kTuple);
  for (const Value& affix : several ? std::span<const Value>(affixes.as<Sequence>()->items) : std::span(&affixes, 1)) {
    const std::string& text = require_text(runtime, name, affix);
    runtime.step();
    runtime.step_copy(text.size());
    if (window.valid && (name == "startswith" ? window.text.starts_with(text) : window.text.ends_with(text)))
      return true;
  }
  return false;
}

using Parts = std::vector<std::string_view>;

/// Splits at white space; a negative `limit` means no limit.
Parts split_words(std::string_view text, int64_t limit) {
  Parts parts;
  text.remove_prefix(leading_space(text));
  while (!text.empty()) {
    if (limit == 0) {
      parts.push_back(text);
      break;
    }
    --limit;
    size_t end = 0;
    for (size_t at = 0; at < text.size(); end = at) {
      if (is_space(next_code_point(text, at))) break;
    }
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
    text.remove_prefix(leading_space(text));
  }
  return parts;
}

Parts split_words_from_right(std::string_view text, int64_t limit) {
  Parts parts;
  text.remove_suffix(trailing_space(text));
  while (!text.empty()) {
    if (limit == 0) {
      parts.push_back(text);
      break;
    }
    --limit;
    size_t begin = text.size();
    for (size_t at = begin; at > 0; begin = at) {
      do {
        --at;
      } while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
      size_t next = at;
      if (is_space(next_code_point(text, next))) break;
    }
    parts.push_back(text.substr(begin));
    text = text.substr(0, begin);
    text.remove_suffix(trailing_space(text));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Parts split_at(std::string_view text, std::string_view separator, int64_t limit) {
  Parts parts;
  for (; limit != 0; --limit) {
    const size_t found = text::find(text, separator);
    if (found == std::string::npos) break;
    parts.push_back(text.substr(0, found));
    text.remove_prefix(found + separator.size());
  }
  parts.push_back(text);
  return parts;
}

Parts split_at_from_right(std::string_view text, std::string_view separator, int64_t limit) {
  // Reverses both and splits from the front.
  const std::string text_backwards(text.rbegin(), text.rend()),
      separator_backwards(separator.rbegin(), separator.rend());
  Parts parts = split_at(text_backwards, separator_backwards, limit);
  std::reverse(parts.begin(), parts.end());
  for (std::string_view& part : parts) {
    const auto reversed_end = static_cast<size_t>(part.data() - text_backwards.data()) + part.size();
    part = text.substr(text.size() - reversed_end, part.size());
  }
  return parts;
}

Parts split_lines(std::string_view text, bool keep_ends) {
  Parts parts;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t code = next_code_point(text, at);
    if (!is_line_break(code)) continue;
    if (code == '\r' && at < text.size() && text[at] == '\n') ++at;
    parts.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) parts.push_back(text.substr(begin));
  return parts;
}

/// `bytes` is a substring of `self`.
Value part_of(Runtime& runtime, const Value& self, std::string_view bytes) {
  const auto begin = static_cast<size_t>(bytes.data() - self.text().data());
  return runtime.text(self.traced().part(begin, begin + bytes.size()), self.is_markup());
}

Value as_list(Runtime& runtime, const Value& self, const Parts& parts) {
  std::vector<Value> items;
  for (std::string_view part : parts) items.push_back(part_of(runtime, self, part));
  return runtime.list(std::move(items));
}

Value partition(Runtime& runtime, const Value& self, const std::string& separator, bool from_right) {
  if (separator.empty()) runtime.fail("the separator of 'partition' is empty");
  const std::string_view text = self.text();
  const size_t found = from_right ? find_last(text, separator) : text::find(text, separator);
  const auto part = [&](std::string_view bytes) { return part_of(runtime, self, bytes); };
  if (found == std::string::npos) {
    const Value none = part(text.substr(0, 0));
    return from_right ? runtime.tuple({none, none, self}) : runtime.tuple({self, none, none});
  }
  return runtime.tuple({part(text.substr(0, found)), part(text.substr(found, separator.size())),
                        part(text.substr(found + separator.size()))});
}

}  // namespace

std::optional<Value> call_search_method(Runtime& runtime, const Value& self, std::string_view name,
                                        const Arguments& arguments) {
  const bool is_affix = name == "startswith" || name == "endswith";
  const bool is_find = name == "find" || name == "rfind" || name == "index" || name == "rindex";
  if (!is_affix && !is_find && name != "count") return std::nullopt;
  const BoundArguments bound(runtime, name, arguments, {"", "", ""}, 1);
  const Window window(runtime, self, bound);
  if (is_affix) return has_affix(runtime, window, name, bound.at(0));
  runtime.step_search(self.text().size());
  const Value needle = bound.at(0);
  const std::string& bytes = require_text(runtime, name, needle);
  return is_find ? find(runtime, window, name, bytes) : count(runtime, window, bytes);
}

std::optional<Value> call_split_method(Runtime& runtime, const Value& self, std::string_view name,
                                       const Arguments& arguments) {
  runtime.step_search(self.text().size());
  if (name == "splitlines") {
    const BoundArguments bound(runtime, name, arguments, {"keepends"});
    return as_list(runtime, self, split_lines(self.text(), bound.is_true(0)));
  }
  const bool from_right = name.starts_with('r');
  if (name == "partition" || name == "rpartition") {
    const BoundArguments bound(runtime, name, arguments, {""}, 1);
    return partition(runtime, self, require_text(runtime, name, bound.at(0)), from_right);
  }
  if (name != "split" && name != "rsplit") return std::nullopt;
  const BoundArguments bound(runtime, name, arguments, {"sep", "maxsplit"});
  const std::optional<std::string> separator = bound.text(0);
  const int64_t limit = bound.integer(1, -1);
  if (separator && separator->empty()) runtime.fail("the separator of '", name, "' is empty");
  if (!separator) {
    return as_list(runtime, self,
                   from_right ? split_words_from_right(self.text(), limit) : split_words(self.text(), limit));
  }
  return as_list(
      runtime, self,
      from_right ? split_at_from_right(self.text(), *separator, limit) : split_at(self.text(), *separator, limit));
}

}  // namespace keel::jinja
