#include <algorithm>
#include <functional>
#include <memory>

#include "libs/hftext/jinja/library/filter_table.h"
#include "libs/hftext/jinja/objects/attribute_path.h"
#include "libs/hftext/jinja/objects/bound_arguments.h"
#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/operators.h"
#include "libs/hftext/jinja/objects/python_str.h"

namespace keel::jinja {
namespace {

/// A generator that starts iterating `input` at its first item; a false input has no items.
Value lazy_generator(Runtime& runtime, const Value& input, std::function<bool(Cursor&, Value&)> next) {
  const auto cursor = std::make_shared<std::optional<Cursor>>();
  return runtime.generator([&runtime, input, cursor, next = std::move(next)](Value& item) {
    if (!*cursor) {
      if (!is_true(input)) return false;
      cursor->emplace(runtime, input);
    }
    return next(**cursor, item);
  });
}

Value map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return lazy_generator(runtime, input, [&runtime, arguments](Cursor& cursor, Value& item) {
    runtime.step(arguments.positional.size());
    if (arguments.positional.empty()) {
      const BoundArguments bound(runtime, "map", arguments, {"attribute", "default"}, 1);
      const bool has_default = bound.has(1) && !bound.at(1).is_none();
      const AttributePath path(runtime, bound.at(0), has_default ? std::optional<Value>(bound.at(1)) : std::nullopt);
      if (!cursor.next(item)) return false;
      item = path.get(runtime, item);
      return true;
    }
    if (!cursor.next(item)) return false;
    const Value& name = arguments.positional[0];
    if (!name.is_text()) runtime.fail("'map' expects the name of a filter, got ", type_name(name));
    const Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
    item = call_filter(runtime, name.text(), item, rest);
    return true;
  });
}

/// Implements select, reject, selectattr and rejectattr: items whose test result is `expected`.
Value filtered(Runtime& runtime, const Value& input, const Arguments& arguments, bool by_attribute, bool expected) {
  return lazy_generator(runtime, input, [&runtime, arguments, by_attribute, expected](Cursor& cursor, Value& item) {
    const std::vector<Value>& args = arguments.positional;
    runtime.step(args.size());
    const size_t skip = by_attribute ? 1 : 0;
    if (args.size() < skip) runtime.fail("'selectattr' and 'rejectattr' need the name of an attribute");
    const AttributePath path(runtime, by_attribute ? args[0] : Value(None{}));
    while (cursor.next(item)) {
      const Value subject = path.get(runtime, item);
      bool answer = false;
      if (args.size() > skip) {
        if (!args[skip].is_text()) runtime.fail("'select' expects the name of a test, got ", type_name(args[skip]));
        const Arguments rest{{args.begin() + static_cast<long>(skip) + 1, args.end()}, arguments.named};
        answer = call_test(runtime, args[skip].text(), subject, rest);
      } else {
        answer = is_true(subject);
      }
      if (answer == expected) return true;
    }
    return false;
  });
}

Value select(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return filtered(runtime, input, arguments, false, true);
}
Value reject(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return filtered(runtime, input, arguments, false, false);
}
Value selectattr(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return filtered(runtime, input, arguments, true, true);
}
Value rejectattr(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return filtered(runtime, input, arguments, true, false);
}

Value unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "unique", arguments, {"case_sensitive", "attribute"});
  const AttributePath path(runtime, bound.at(1));
  const bool case_sensitive = bound.is_true(0);
  auto* seen = runtime.make<Dict>();
  const auto cursor = std::make_shared<std::optional<Cursor>>();
  return runtime.generator([&runtime, input, path, case_sensitive, seen, cursor](Value& item) {
    if (!*cursor) cursor->emplace(runtime, input);
    while ((*cursor)->next(item)) {
      Value key = path.get(runtime, item);
      if (!case_sensitive) key = ignore_case(runtime, key);
      if (seen->find(runtime, key) != nullptr) continue;
      seen->set(runtime, key, true);
      return true;
    }
    return false;
  });
}

}  // namespace

AttributePath::AttributePath(Runtime& runtime, const Value& attribute, std::optional<Value> default_value)
    : default_value_(std::move(default_value)) {
  if (attribute.is_none()) return;
  if (!attribute.is_text()) {
    parts_.push_back(attribute);
    return;
  }
  const std::string& text = attribute.text();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool is_index = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    const std::optional<int64_t> index = is_index ? parse_integer(runtime, part) : std::nullopt;
    parts_.push_back(index ? Value(*index) : runtime.literal(part));
    begin = end + 1;
  }
}

Value AttributePath::get(Runtime& runtime, Value item) const {
  for (const Value& part : parts_) {
    item = get_item(runtime, item, part);
    if (default_value_ && item.is_undefined()) item = *default_value_;
  }
  return item;
}

Value ignore_case(Runtime& runtime, const Value& value) {
  if (!value.is_text()) return value;
  runtime.step_characters(value.text().size());
  return runtime.text(TracedText(to_lower(value.text()), value.traced().has_untrusted()));
}

std::vector<FilterRow> selection_filters() {
  return {{"map", map},       {"reject", reject},         {"rejectattr", rejectattr},
          {"select", select}, {"selectattr", selectattr}, {"unique", unique}};
}

}  // namespace keel::jinja
