#include <algorithm>
#include <map>

#include "libs/hftext/jinja/library/filter_table.h"
#include "libs/hftext/jinja/objects/bound_arguments.h"
#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/operators.h"

namespace keel::jinja {
namespace {

Value default_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "default", arguments, {"default_value", "boolean"});
  if (!input.is_undefined() && !(bound.is_true(1) && !is_true(input))) return input;
  return bound.has(0) ? bound.at(0) : runtime.literal("");
}

Value attr(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "attr", arguments, {"name"}, 1);
  const std::optional<std::string> name = bound.text(0);
  if (!name) runtime.fail("'attr' expects the name of an attribute");
  if (input.is_undefined()) runtime.fail_undefined(input);
  // Unlike x.name, it never returns an item of a dict.
  if (input.is(ObjectKind::kDict) && !has_method(input, *name)) {
    return runtime.undefined("'dict object' has no attribute '" + *name + "'");
  }
  return get_attribute(runtime, input, *name);
}

JsonStyle json_style(Runtime& runtime, const BoundArguments& bound) {
  JsonStyle style;
  style.ensure_ascii = bound.is_true(0);
  style.sort_keys = bound.is_true(3);
  const Value indent = bound.at(1), separators = bound.at(2);
  if (indent.is_text()) {
    style.indent = indent.text();
  } else if (indent.is_integer()) {
    const int64_t width = std::max<int64_t>(indent.integer(), 0);
    runtime.check_text(static_cast<size_t>(width));
    style.indent = std::string(static_cast<size_t>(width), ' ');
  } else if (!indent.is_none()) {
    runtime.fail("the indent of 'tojson' is ", type_name(indent), "; it must be an integer or a string");
  }
  if (style.indent) style.item_separator.pop_back();  // no space at the end of a line
  if (!separators.is_none()) {
    const std::vector<Value> both = to_vector(runtime, separators);
    if (both.size() != 2 || !both[0].is_text() || !both[1].is_text()) {
      runtime.fail("the separators of 'tojson' must be two strings: (', ', ': ')");
    }
    style.item_separator = both[0].text();
    style.key_separator = both[1].text();
  }
  return style;
}

Value tojson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  std::string text = to_json(runtime, input, json_style(runtime, bound));
  const bool untrusted = contains_untrusted(runtime, input) || contains_untrusted(runtime, bound.at(1)) ||
                         contains_untrusted(runtime, bound.at(2));
  return runtime.text(TracedText(std::move(text), untrusted));
}

const std::map<std::string_view, FilterRow>& filters() {
  static const std::map<std::string_view, FilterRow> table = [] {
    std::map<std::string_view, FilterRow> all;
    const std::vector<FilterRow> own = {
        {"attr", attr}, {"d", default_filter}, {"default", default_filter}, {"tojson", tojson}};
    for (const std::vector<FilterRow>& rows :
         {own, text_filters(), number_filters(), sequence_filters(), selection_filters()}) {
      for (const FilterRow& row : rows) all.emplace(row.name, row);
    }
    return all;
  }();
  return table;
}

}  // namespace

void expect_none(Runtime& runtime, std::string_view name, const Arguments& arguments) {
  BoundArguments(runtime, name, arguments, {});
}

bool is_filter(std::string_view name) { return filters().contains(name); }

Value call_filter(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  runtime.step();
  step_arguments(runtime, arguments);
  const auto row = filters().find(name);
  if (row == filters().end()) runtime.fail("no filter is called '", name, "'");
  return row->second.filter(runtime, input, arguments);
}

}  // namespace keel::jinja
