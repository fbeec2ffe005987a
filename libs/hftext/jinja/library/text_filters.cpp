#include <algorithm>

#include "libs/hftext/jinja/library/filter_table.h"
#include "libs/hftext/jinja/objects/bound_arguments.h"
#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/operators.h"
#include "libs/hftext/jinja/objects/python_str.h"

namespace keel::jinja {
namespace {

/// Converts a value to a string; Markup stays Markup.
Value soft_text(Runtime& runtime, const Value& value) {
  return value.is_text() ? value : runtime.text(to_text(runtime, value));
}

/// Calls a str method on the input.
template <const char* kName>
Value method(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return call_method(runtime, soft_text(runtime, input), kName, arguments);
}

constexpr char kUpperName[] = "upper", kLowerName[] = "lower", kCapitalizeName[] = "capitalize";

Value title(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "title", arguments);
  const Value text = soft_text(runtime, input);
  runtime.step(text.text().size());
  const auto separates = [](char32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
  };
  std::string result;
  const std::u32string codes = code_points(text.text());
  for (size_t begin = 0; begin < codes.size();) {
    size_t end = begin;
    while (end < codes.size() && separates(codes[end]) == separates(codes[begin])) ++end;
    result += to_upper(utf8(codes.substr(begin, 1))) + to_lower(utf8(codes.substr(begin + 1, end - begin - 1)));
    begin = end;
  }
  return runtime.text(TracedText(std::move(result), text.traced().has_untrusted()));
}

Value trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "trim", arguments, {"chars"});
  return call_method(runtime, soft_text(runtime, input), "strip", {{bound.at(0)}, {}});
}

Value replace(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "replace", arguments, {"old", "new", "count"}, 2);
  const auto plain = [&](const Value& value) { return runtime.text(to_text(runtime, value)); };
  const int64_t count = bound.at(2).is_none() ? -1 : bound.integer(2, -1);
  return call_method(runtime, plain(input), "replace", {{plain(bound.at(0)), plain(bound.at(1)), count}, {}});
}

Value center(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "center", arguments, {"width"});
  return call_method(runtime, soft_text(runtime, input), "center", {{bound.integer(0, 80)}, {}});
}

Value string(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "string", arguments);
  return soft_text(runtime, input);
}

Value safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "safe", arguments);
  return runtime.text(to_text(runtime, input), true);
}

Value escape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "escape", arguments);
  return input.is_markup() ? input : runtime.text(escape_html(runtime, to_text(runtime, input)), true);
}

Value force_escape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "forceescape", arguments);
  return runtime.text(escape_html(runtime, to_text(runtime, input)), true);
}

Value indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "indent", arguments, {"width", "first", "blank"});
  if (input.is_undefined()) runtime.fail_undefined(input);
  if (!input.is_text()) runtime.fail("'indent' expects a string, got ", type_name(input));
  TracedText space("    ");
  if (bound.at(0).is_text()) {
    space = bound.at(0).traced();
  } else if (bound.has(0)) {
    const auto width = static_cast<size_t>(std::max<int64_t>(bound.integer(0, 4), 0));
    runtime.check_text(width);
    space = TracedText(std::string(width, ' '));
  }
  TracedText text = input.traced();
  text.append("\n");
  const Value lines = call_method(runtime, runtime.text(std::move(text)), "splitlines", {});
  TracedText result;
  if (bound.is_true(1)) result.append(space);
  bool first = true;
  for (const Value& line : lines.as<Sequence>()->items) {
    if (!first) result.append("\n");
    if (!first && (bound.is_true(2) || !line.text().empty())) result.append(space);
    result.append(line.traced());
    runtime.check_text(result);
    first = false;
  }
  return runtime.text(std::move(result), input.is_markup());
}

Value truncate(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "truncate", arguments, {"length", "killwords", "end", "leeway"});
  const int64_t length = bound.integer(0, 255);
  const Value end = bound.text(2) ? bound.at(2) : runtime.literal("...");
  const int64_t leeway = bound.at(3).is_none() ? 5 : bound.integer(3, 5);
  const auto end_length = static_cast<int64_t>(code_point_count(end.text()));
  if (length < end_length || leeway < 0) runtime.fail("'truncate' expects a length of at least ", end_length);
  const std::optional<size_t> text_length = jinja::length(input);
  if (!text_length) runtime.fail("'truncate' expects a string, got ", type_name(input));
  const auto size = static_cast<int64_t>(*text_length);
  if (size <= length || size - length <= leeway) return input;
  if (!input.is_text()) runtime.fail("'truncate' expects a string, got ", type_name(input));
  const std::string& text = input.text();
  runtime.step_search(text.size());
  size_t cut = byte_of_code_point(text, static_cast<size_t>(length - end_length));
  const size_t space = bound.is_true(1) ? std::string::npos : std::string_view(text).substr(0, cut).rfind(' ');
  if (space != std::string::npos) cut = space;
  return add(runtime, runtime.text(input.traced().part(0, cut), input.is_markup()), end);
}

Value wordcount(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "wordcount", arguments);
  const Value text = soft_text(runtime, input);
  runtime.step_characters(text.text().size());
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.text().size();) {
    const char32_t code = next_code_point(text.text(), at);
    const bool is_word = code == '_' || is_alnum(code);
    words += is_word && !inside;
    inside = is_word;
  }
  return words;
}

Value format(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    runtime.fail("'format' takes arguments by position or by name, not both");
  }
  const Value text = soft_text(runtime, input);
  Value values = runtime.tuple(arguments.positional);
  if (!arguments.named.empty()) {
    auto* dict = runtime.make<Dict>();
    for (const auto& [name, value] : arguments.named) dict->set(runtime, name_of(runtime, arguments, name), value);
    values = dict;
  }
  return binary(runtime, Operator::kModulo, text, values);
}

std::string quoted_for_url(Runtime& runtime, const Value& value, bool in_query) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string result;
  const TracedText text = to_text(runtime, value);
  runtime.step_characters(text.size());
  for (const char c : text.bytes()) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && is_alnum(byte)) || std::string_view("_.-~").find(c) != std::string_view::npos ||
        (c == '/' && !in_query)) {
      result += c;
    } else if (c == ' ' && in_query) {
      result += '+';
    } else {
      result += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return result;
}

Value urlencode(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "urlencode", arguments);
  if (input.is_text() || !is_iterable(input)) {
    return runtime.text(TracedText(quoted_for_url(runtime, input, false), contains_untrusted(runtime, input)));
  }
  const auto* dict = input.as<Dict>();
  std::string result;
  bool untrusted = false;
  Value item;
  const Value items = dict != nullptr ? Value(runtime.make<View>(dict, View::Of::kItems)) : input;
  for (Cursor cursor(runtime, items); cursor.next(item);) {
    const std::vector<Value> pair = to_vector(runtime, item);
    if (pair.size() != 2) runtime.fail("'urlencode' expects pairs of a key and a value");
    if (!result.empty()) result += '&';
    untrusted = untrusted || contains_untrusted(runtime, pair[0]) || contains_untrusted(runtime, pair[1]);
    result += quoted_for_url(runtime, pair[0], true) + "=" + quoted_for_url(runtime, pair[1], true);
    runtime.check_text(result.size());
  }
  return runtime.text(TracedText(std::move(result), untrusted));
}

}  // namespace

std::vector<FilterRow> text_filters() {
  return {{"capitalize", method<kCapitalizeName>},
          {"center", center},
          {"e", escape},
          {"escape", escape},
          {"forceescape", force_escape},
          {"format", format},
          {"indent", indent},
          {"lower", method<kLowerName>},
          {"replace", replace},
          {"safe", safe},
          {"string", string},
          {"title", title},
          {"trim", trim},
          {"truncate", truncate},
          {"upper", method<kUpperName>},
          {"urlencode", urlencode},
          {"wordcount", wordcount}};
}

}  // namespace keel::jinja
