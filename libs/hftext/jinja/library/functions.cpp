#include <ctime>

#include "keel/core/untrusted_text.h"
#include "libs/hftext/jinja/objects/bound_arguments.h"
#include "libs/hftext/jinja/objects/builtins.h"
#include "libs/hftext/jinja/objects/callables.h"
#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {
namespace {

constexpr size_t kMaxRange = 100'000;  // as in Jinja's sandbox

Value make_range(Runtime& runtime, const Arguments& arguments) {
  const BoundArguments bound(runtime, "range", arguments, {"", "", ""}, 1);
  const bool has_start = bound.has(1);
  const int64_t start = has_start ? bound.integer(0, 0) : 0, stop = bound.integer(has_start ? 1 : 0, 0);
  const int64_t step = bound.integer(2, 1);
  if (step == 0) runtime.fail("the step of range() is 0");
  auto* range = runtime.make<Range>(start, stop, step);
  if (range->size > kMaxRange) {
    runtime.fail("range() would have ", range->size, " numbers; at most ", kMaxRange, " are allowed");
  }
  return range;
}

/// Fills a dict as Python's dict(...) does: from a mapping or pairs, then named arguments.
void fill_dict(Runtime& runtime, Dict& dict, std::string_view function, const Arguments& arguments) {
  if (arguments.positional.size() > 1) runtime.fail("'", function, "' takes at most 1 positional argument");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_undefined()) runtime.fail_undefined(source);
    if (const auto* other = source.as<Dict>()) {
      for (const auto& [key, value] : other->items) dict.set(runtime, key, value);
    } else {
      Value pair;
      for (Cursor cursor(runtime, source); cursor.next(pair);) {
        const std::vector<Value> items = to_vector(runtime, pair);
        if (items.size() != 2) runtime.fail("'", function, "' expects pairs of a key and a value");
        dict.set(runtime, items[0], items[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict.set(runtime, name_of(runtime, arguments, name), value);
}

Value make_dict(Runtime& runtime, const Arguments& arguments) {
  auto* dict = runtime.make<Dict>();
  fill_dict(runtime, *dict, "dict", arguments);
  return dict;
}

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  auto* result = runtime.make<Namespace>();
  fill_dict(runtime, result->attributes, "namespace", arguments);
  for (const auto& [key, value] : result->attributes.items) {
    if (key.is_text() && key.text().starts_with('_')) {
      runtime.fail("the attribute '", key.text(), "' of a namespace begins with '_'; rename it");
    }
  }
  return result;
}

Value make_cycler(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) runtime.fail("cycler() needs at least one item");
  return runtime.make<Cycler>(arguments.positional);
}

Value make_joiner(Runtime& runtime, const Arguments& arguments) {
  const BoundArguments bound(runtime, "joiner", arguments, {"sep"});
  return runtime.make<Joiner>(bound.has(0) ? bound.at(0) : runtime.literal(", "));
}

Value raise_exception(Runtime& runtime, const Arguments& arguments) {
  const BoundArguments bound(runtime, "raise_exception", arguments, {"message"}, 1);
  runtime.fail("the template refuses this conversation: ", to_text(runtime, bound.at(0)).bytes());
}

/// datetime.strftime() of RenderOptions::now, a time without a zone, so %z and %Z are empty.
Value format_time(Runtime& runtime, const Arguments& arguments) {
  const BoundArguments bound(runtime, "strftime_now", arguments, {"format"}, 1);
  if (!bound.at(0).is_text()) runtime.fail("strftime_now() expects a string, got ", type_name(bound.at(0)));
  if (!runtime.now()) runtime.fail("the template asks for the date, but none was given for this rendering");
  std::string format;
  const std::string python_format = bound.at(0).text();
  runtime.step(python_format.size() * 8);
  for (size_t i = 0; i < python_format.size(); ++i) {
    const char next = i + 1 < python_format.size() ? python_format[i + 1] : '\0';
    if (python_format[i] != '%' || (next != 'f' && next != 'z' && next != 'Z')) {
      format += python_format[i];
      if (python_format[i] == '%' && next != '\0') format += python_format[++i];
      continue;
    }
    if (next == 'f') format += "000000";
    ++i;
  }
  if (format.empty()) return runtime.literal("");
  const size_t max_size = format.size() * 64;  // 128 bytes for a conversion such as %c
  runtime.check_text(max_size);
  std::string result(max_size + 256, '\0');
  const std::tm time = *runtime.now();
  result.resize(std::strftime(result.data(), result.size(), format.c_str(), &time));
  if (first_bad_utf8(result)) runtime.fail("strftime_now() returned invalid UTF-8");
  return runtime.text(TracedText(std::move(result), bound.at(0).traced().has_untrusted()));
}

struct FunctionRow {
  std::string_view name;
  Value (*function)(Runtime&, const Arguments&);
};

const FunctionRow kFunctions[] = {
    {"range", make_range},         {"dict", make_dict},     {"namespace", make_namespace},
    {"cycler", make_cycler},       {"joiner", make_joiner}, {"raise_exception", raise_exception},
    {"strftime_now", format_time},
};

}  // namespace

const std::vector<std::string_view>& function_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const FunctionRow& row : kFunctions) list.push_back(row.name);
    return list;
  }();
  return names;
}

Value call_function(Runtime& runtime, std::string_view name, const Arguments& arguments) {
  for (const FunctionRow& row : kFunctions) {
    if (row.name == name) return row.function(runtime, arguments);
  }
  runtime.fail("no function is called '", name, "'");
}

}  // namespace keel::jinja
