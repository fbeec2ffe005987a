#include <algorithm>

#include "libs/hftext/jinja/library/filter_table.h"
#include "libs/hftext/jinja/objects/attribute_path.h"
#include "libs/hftext/jinja/objects/bound_arguments.h"
#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/operators.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/sorting.h"

namespace keel::jinja {
namespace {

/// A generator over a list that is created at the first item.
Value deferred_list(Runtime& runtime, std::function<std::vector<Value>()> make) {
  const auto items = std::make_shared<std::optional<std::vector<Value>>>();
  const auto index = std::make_shared<size_t>(0);
  return runtime.generator([items, index, make = std::move(make)](Value& item) {
    if (!*items) *items = make();
    if (*index >= (*items)->size()) return false;
    item = (**items)[(*index)++];
    return true;
  });
}

Value length_of(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "length", arguments);
  const std::optional<size_t> size = length(input);
  if (!size) runtime.fail("a ", type_name(input), " has no length; convert it to a list first: x|list|length");
  return static_cast<int64_t>(*size);
}

Value list(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "list", arguments);
  return runtime.list(to_vector(runtime, input));
}

Value first(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "first", arguments);
  Value item;
  if (Cursor(runtime, input).next(item)) return item;
  return runtime.undefined("there is no first item, the sequence is empty");
}

/// The items in reverse, as Python's reversed(); nullopt where it raises a TypeError.
std::optional<std::vector<Value>> reversed(Runtime& runtime, const Value& input) {
  if (!length(input)) return std::nullopt;
  std::vector<Value> items = to_vector(runtime, input);
  std::reverse(items.begin(), items.end());
  return items;
}

Value last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "last", arguments);
  const std::optional<std::vector<Value>> items = reversed(runtime, input);
  if (!items) runtime.fail("a ", type_name(input), " has no last item; convert it to a list first: x|list|last");
  return items->empty() ? runtime.undefined("there is no last item, the sequence is empty") : items->front();
}

Value reverse(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "reverse", arguments);
  if (input.is_text()) return get_slice(runtime, input, None{}, None{}, int64_t{-1});
  if (std::optional<std::vector<Value>> items = reversed(runtime, input)) {
    return deferred_list(runtime, [items = std::move(*items)] { return items; });
  }
  std::vector<Value> items = to_vector(runtime, input);
  std::reverse(items.begin(), items.end());
  return runtime.list(std::move(items));
}

Value join(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "join", arguments, {"d", "attribute"});
  const TracedText separator = bound.has(0) ? to_text(runtime, bound.at(0)) : TracedText();
  const AttributePath path(runtime, bound.at(1));
  TracedText result;
  bool is_first = true;
  Value item;
  for (Cursor cursor(runtime, input); cursor.next(item); is_first = false) {
    if (!is_first) result.append(separator);
    result.append(to_text(runtime, path.get(runtime, item)));
    runtime.check_text(result);
  }
  return runtime.text(std::move(result));
}

Value items(Runtime& runtime, const Value& input, const Arguments& arguments) {
  expect_none(runtime, "items", arguments);
  return deferred_list(runtime, [&runtime, input] {
    if (input.is_undefined()) return std::vector<Value>();
    const auto* dict = input.as<Dict>();
    if (dict == nullptr) runtime.fail("'items' expects a dict, got ", type_name(input));
    return to_vector(runtime, Value(runtime.make<View>(dict, View::Of::kItems)));
  });
}

/// Pairs of sort key and item.
using Keyed = std::vector<std::pair<Value, Value>>;

std::vector<Value> sorted(Runtime& runtime, Keyed items, bool backwards) {
  const auto is_less = [&](const auto& a, const auto& b) { return less(runtime, a.first, b.first); };
  // Equal items keep their order, also in a descending sort.
  if (backwards) std::reverse(items.begin(), items.end());
  merge_sort(items, is_less);
  if (backwards) std::reverse(items.begin(), items.end());
  std::vector<Value> result;
  for (auto& [key, item] : items) result.push_back(std::move(item));
  return result;
}

Value sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<AttributePath> paths;
  if (bound.at(2).is_text()) {
    const std::string all = bound.at(2).text();
    for (size_t begin = 0; begin <= all.size();) {
      const size_t end = std::min(all.find(',', begin), all.size());
      paths.emplace_back(runtime, runtime.literal(all.substr(begin, end - begin)));
      begin = end + 1;
    }
  } else {
    paths.emplace_back(runtime, bound.at(2));
  }
  Keyed keyed;
  for (const Value& item : to_vector(runtime, input)) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      const Value part = path.get(runtime, item);
      key.push_back(bound.is_true(1) ? part : ignore_case(runtime, part));
    }
    keyed.emplace_back(runtime.list(std::move(key)), item);
  }
  return runtime.list(sorted(runtime, std::move(keyed), bound.integer(0, 0) != 0));
}

Value dictsort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.has(1) ? to_text(runtime, bound.at(1)).bytes() : "key";
  if (by != "key" && by != "value") runtime.fail("'dictsort' is by '", by, "'; it must be by key or value");
  const auto* dict = input.as<Dict>();
  if (input.is_undefined()) runtime.fail_undefined(input);
  if (dict == nullptr) runtime.fail("'dictsort' expects a dict, got ", type_name(input));
  Keyed keyed;
  for (const auto& [key, value] : dict->items) {
    const Value& chosen = by == "key" ? key : value;
    keyed.emplace_back(bound.is_true(0) ? chosen : ignore_case(runtime, chosen), runtime.tuple({key, value}));
  }
  return runtime.list(sorted(runtime, std::move(keyed), bound.integer(2, 0) != 0));
}

Value min_or_max(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, name, arguments, {"case_sensitive", "attribute"});
  const AttributePath path(runtime, bound.at(1));
  const Order better = name == "min" ? Order::kLess : Order::kGreater;
  std::optional<Value> best, best_key;
  Value item;
  for (Cursor cursor(runtime, input); cursor.next(item);) {
    Value key = path.get(runtime, item);
    if (!bound.is_true(0)) key = ignore_case(runtime, key);
    if (best_key && !ordered(runtime, better, key, *best_key)) continue;
    best = item;
    best_key = key;
  }
  return best ? *best : runtime.undefined("there is no smallest or largest item, the sequence is empty");
}

Value min(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return min_or_max(runtime, "min", input, arguments);
}
Value max(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return min_or_max(runtime, "max", input, arguments);
}

Value sum(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "sum", arguments, {"attribute", "start"});
  const AttributePath path(runtime, bound.at(0));
  Value total = bound.has(1) ? bound.at(1) : Value(int64_t{0});
  if (total.is_text()) runtime.fail("'sum' cannot add strings; use 'join'");
  Value item;
  for (Cursor cursor(runtime, input); cursor.next(item);) total = add(runtime, total, path.get(runtime, item));
  return total;
}

Value groupby(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const bool has_default = bound.has(1) && !bound.at(1).is_none();
  const AttributePath path(runtime, bound.at(0), has_default ? std::optional<Value>(bound.at(1)) : std::nullopt);
  const auto key_of = [&](const Value& item) {
    const Value key = path.get(runtime, item);
    return bound.is_true(2) ? key : ignore_case(runtime, key);
  };
  Keyed keyed;
  for (const Value& item : to_vector(runtime, input)) keyed.emplace_back(key_of(item), item);
  std::vector<std::pair<Value, std::vector<Value>>> groups;
  for (Value& item : sorted(runtime, std::move(keyed), false)) {
    const Value key = key_of(item);
    if (groups.empty() || !equal(runtime, groups.back().first, key)) groups.push_back({key, {}});
    groups.back().second.push_back(std::move(item));
  }
  std::vector<Value> result;
  for (auto& [key, members] : groups) {
    const Value name = path.get(runtime, members[0]);  // with the letter case of the first one
    const Value group = runtime.tuple({name, runtime.list(std::move(members))});
    group.as<Sequence>()->is_group = true;
    result.push_back(group);
  }
  return runtime.list(std::move(result));
}

Value batch(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "batch", arguments, {"linecount", "fill_with"}, 1);
  return deferred_list(runtime, [&runtime, input, count = bound.at(0), fill = bound.at(1)] {
    std::vector<Value> result, line;
    const auto is_full = [&] { return count.is_number() && static_cast<double>(line.size()) == count.number(); };
    for (const Value& item : to_vector(runtime, input)) {
      if (is_full()) result.push_back(runtime.list(std::exchange(line, {})));
      line.push_back(item);
    }
    if (line.empty()) return result;
    if (!fill.is_none()) {
      if (!count.is_integer()) runtime.fail("the length of a line of 'batch' must be an integer");
      const int64_t missing = std::max<int64_t>(count.integer() - static_cast<int64_t>(line.size()), 0);
      runtime.step(static_cast<size_t>(missing));
      runtime.check_text(static_cast<size_t>(std::min<int64_t>(missing, int64_t{1} << 50)) * sizeof(Value));
      line.insert(line.end(), static_cast<size_t>(missing), fill);
    }
    result.push_back(runtime.list(std::move(line)));
    return result;
  });
}

Value slice(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "slice", arguments, {"slices", "fill_with"}, 1);
  return deferred_list(runtime, [&runtime, input, slices = bound.at(0), fill = bound.at(1)] {
    const std::vector<Value> all = to_vector(runtime, input);
    if (!slices.is_integer() || slices.integer() == 0)
      runtime.fail("the number of slices must be an integer and not 0");
    std::vector<Value> result;
    if (slices.integer() < 0) return result;
    const auto count = static_cast<size_t>(slices.integer());
    const size_t each = all.size() / count, extra = all.size() % count;
    size_t offset = 0;
    for (size_t i = 0; i < count; ++i) {
      runtime.step(1 + each);
      const size_t begin = offset + i * each;
      if (i < extra) ++offset;
      std::vector<Value> part(all.begin() + static_cast<long>(begin),
                              all.begin() + static_cast<long>(offset + (i + 1) * each));
      if (!fill.is_none() && i >= extra) part.push_back(fill);
      result.push_back(runtime.list(std::move(part)));
    }
    return result;
  });
}

}  // namespace

std::vector<FilterRow> sequence_filters() {
  return {{"batch", batch},      {"count", length_of}, {"dictsort", dictsort}, {"first", first},
          {"groupby", groupby},  {"items", items},     {"join", join},         {"last", last},
          {"length", length_of}, {"list", list},       {"max", max},           {"min", min},
          {"reverse", reverse},  {"slice", slice},     {"sort", sort},         {"sum", sum}};
}

}  // namespace keel::jinja
