// Methods of values other than strings.

#include <algorithm>
#include <cmath>

#include "libs/hftext/jinja/library/text_methods.h"
#include "libs/hftext/jinja/objects/bound_arguments.h"
#include "libs/hftext/jinja/objects/builtins.h"
#include "libs/hftext/jinja/objects/callables.h"

namespace keel::jinja {
namespace {

Value dict_from_keys(Runtime& runtime, const Arguments& arguments) {
  const BoundArguments bound(runtime, "fromkeys", arguments, {"", ""}, 1);
  auto* dict = runtime.make<Dict>();
  Value key;
  for (Cursor cursor(runtime, bound.at(0)); cursor.next(key);) dict->set(runtime, key, bound.at(1));
  return dict;
}

Value dict_method(Runtime& runtime, const Dict& self, std::string_view name, const Arguments& arguments) {
  if (name == "fromkeys") return dict_from_keys(runtime, arguments);
  if (name == "get") {
    const BoundArguments bound(runtime, name, arguments, {"", ""}, 1);
    const Value* found = self.find(runtime, bound.at(0));
    return found != nullptr ? *found : bound.at(1);
  }
  const BoundArguments none(runtime, name, arguments, {});
  if (name == "keys") return runtime.make<View>(&self, View::Of::kKeys);
  if (name == "values") return runtime.make<View>(&self, View::Of::kValues);
  if (name == "items") return runtime.make<View>(&self, View::Of::kItems);
  auto* copy = runtime.make<Dict>();
  for (const auto& [key, value] : self.items) copy->set(runtime, key, value);
  return copy;
}

Value sequence_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& arguments) {
  const std::vector<Value> items = to_vector(runtime, self);
  runtime.step(items.size());
  if (name == "copy") {
    const BoundArguments none(runtime, name, arguments, {});
    return runtime.list(items);
  }
  const BoundArguments bound(runtime, name, arguments, {"", "", ""}, 1);
  if (name == "count" && bound.has(1)) runtime.fail("'count' of a ", type_name(self), " takes one argument");
  const auto size = static_cast<int64_t>(items.size());
  const auto clamp_index = [&](int64_t index) {
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  const int64_t begin = clamp_index(bound.integer(1, 0)), end = clamp_index(bound.integer(2, size));
  int64_t count = 0;
  for (int64_t i = begin; i < end; ++i) {
    const Value& item = items[static_cast<size_t>(i)];
    if (!identical(item, bound.at(0)) && !equal(runtime, item, bound.at(0))) continue;
    if (name == "index") return i;
    ++count;
  }
  if (name == "index") runtime.fail("'index' did not find the value in the ", type_name(self));
  return count;
}

Value loop_method(Runtime& runtime, Loop& loop, std::string_view name, const Arguments& arguments) {
  if (!arguments.named.empty()) runtime.fail("'loop.", name, "' takes no named arguments");
  const std::vector<Value>& positional = arguments.positional;
  if (name == "cycle") {
    if (positional.empty()) runtime.fail("'loop.cycle' needs items to cycle through");
    const auto size = static_cast<int64_t>(positional.size());
    return positional[static_cast<size_t>(((loop.index % size) + size) % size)];
  }
  const bool same = loop.last_changed && loop.last_changed->size() == positional.size() &&
                    std::equal(positional.begin(), positional.end(), loop.last_changed->begin(),
                               [&](const Value& a, const Value& b) { return identical(a, b) || equal(runtime, a, b); });
  if (!same) loop.last_changed = positional;
  return !same;
}

Value number_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& arguments) {
  const BoundArguments none(runtime, name, arguments, {});
  if (name == "is_integer") return std::isfinite(self.number()) && self.number() == std::floor(self.number());
  uint64_t magnitude = static_cast<uint64_t>(self.integer());
  if (self.integer() < 0) magnitude = 0 - magnitude;
  return static_cast<int64_t>(64 - (magnitude == 0 ? 64 : __builtin_clzll(magnitude)));
}

}  // namespace

Value call_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& arguments) {
  runtime.step();
  if (self.is_text()) return call_text_method(runtime, self, name, arguments);
  if (const auto* dict = self.as<Dict>()) return dict_method(runtime, *dict, name, arguments);
  if (auto* loop = self.as<Loop>()) return loop_method(runtime, *loop, name, arguments);
  if (auto* cycler = self.as<Cycler>()) {
    const BoundArguments none(runtime, name, arguments, {});
    if (name == "reset") {
      cycler->position = 0;
      return None{};
    }
    const Value current = cycler->items[cycler->position];
    cycler->position = (cycler->position + 1) % cycler->items.size();
    return current;
  }
  if (self.is(ObjectKind::kFunction)) return dict_from_keys(runtime, arguments);
  if (self.is_number()) return number_method(runtime, self, name, arguments);
  return sequence_method(runtime, self, name, arguments);
}

}  // namespace keel::jinja
