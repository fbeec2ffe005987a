#include <algorithm>
#include <initializer_list>

#include "libs/hftext/jinja/objects/callables.h"
#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/operators.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

bool is_one_of(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_text_method(std::string_view name) {
  return is_one_of(name,
                   {"capitalize", "center",       "count",   "endswith",   "expandtabs", "find",        "format",
                    "index",      "isalnum",      "isalpha", "isascii",    "isdecimal",  "isdigit",     "islower",
                    "isnumeric",  "isspace",      "isupper", "istitle",    "join",       "ljust",       "lower",
                    "lstrip",     "partition",    "replace", "rfind",      "rindex",     "rjust",       "rpartition",
                    "rsplit",     "rstrip",       "split",   "splitlines", "startswith", "strip",       "swapcase",
                    "title",      "removeprefix", "upper",   "zfill",      "format_map", "removesuffix"});
}

/// Methods that modify a list or dict; the sandbox forbids them.
bool is_forbidden_method(const Value& value, std::string_view name) {
  if (value.is(ObjectKind::kList)) {
    return is_one_of(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  }
  return value.is(ObjectKind::kDict) && is_one_of(name, {"clear", "pop", "popitem", "setdefault", "update"});
}

std::string describe_object(const Value& object) {
  return object.is_none() ? "None" : std::string(type_name(object)) + " object";
}

Value undefined_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.undefined("'" + describe_object(object) + "' has no attribute '" + std::string(name) + "'");
}

std::optional<Value> loop_property(Runtime& runtime, Loop& loop, std::string_view name) {
  if (name == "index") return loop.index + 1;
  if (name == "index0") return loop.index;
  if (name == "first") return loop.index == 0;
  if (name == "last") return !loop.peek().has_value();
  if (name == "length") return loop.length(runtime);
  if (name == "revindex") return loop.length(runtime) - loop.index;
  if (name == "revindex0") return loop.length(runtime) - loop.index - 1;
  if (name == "depth") return loop.depth + 1;
  if (name == "depth0") return loop.depth;
  if (name == "previtem") {
    return loop.index > 0 && loop.previous ? *loop.previous : runtime.undefined("there is no previous item");
  }
  if (name == "nextitem") return loop.peek() ? *loop.peek() : runtime.undefined("there is no next item");
  return std::nullopt;
}

std::optional<Value> macro_property(Runtime& runtime, const Macro& macro, std::string_view name) {
  const MacroSignature& signature = macro.signature;
  if (name == "name") return signature.name.empty() ? Value(None{}) : runtime.literal(signature.name);
  if (name == "catch_kwargs") return signature.catches_named;
  if (name == "catch_varargs") return signature.catches_positional;
  if (name == "caller") return signature.uses_caller;
  if (name != "arguments") return std::nullopt;
  std::vector<Value> parameters;
  for (const std::string& parameter : signature.parameters) parameters.push_back(runtime.literal(parameter));
  return runtime.tuple(std::move(parameters));
}

std::optional<Value> number_property(const Value& value, std::string_view name) {
  if (name == "real") return value.is_float() ? value : Value(value.integer());
  if (name == "imag") return value.is_float() ? Value(0.0) : Value(int64_t{0});
  if (value.is_integer() && name == "numerator") return value.integer();
  if (value.is_integer() && name == "denominator") return int64_t{1};
  return std::nullopt;
}

/// Attributes that Python's getattr() finds, without methods.
std::optional<Value> property(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_number()) return number_property(object, name);
  if (const auto* space = object.as<Namespace>()) {
    const Value* found = space->attributes.find(runtime, name);
    return found != nullptr ? std::optional<Value>(*found) : std::nullopt;
  }
  if (auto* loop = object.as<Loop>()) return loop_property(runtime, *loop, name);
  if (const auto* macro = object.as<Macro>()) return macro_property(runtime, *macro, name);
  if (const auto* cycler = object.as<Cycler>()) {
    if (name == "current") return cycler->items[cycler->position];
    if (name == "pos") return static_cast<int64_t>(cycler->position);
    if (name == "items") return runtime.tuple(cycler->items);
  }
  if (const auto* joiner = object.as<Joiner>()) {
    if (name == "sep") return joiner->separator;
    if (name == "used") return joiner->used;
  }
  if (const auto* range = object.as<Range>()) {
    if (name == "start") return range->start;
    if (name == "stop") return range->stop;
    if (name == "step") return range->step;
  }
  const auto* sequence = object.as<Sequence>();
  if (sequence != nullptr && sequence->is_group) {
    if (name == "grouper") return sequence->items[0];
    if (name == "list") return sequence->items[1];
  }
  return std::nullopt;
}

/// A method, a property, or undefined for names that the sandbox forbids; nullopt if the type has no such attribute.
std::optional<Value> python_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  const bool is_internal = name.starts_with("__") && name.ends_with("__");
  if (is_internal || is_forbidden_method(object, name)) {
    return runtime.undefined("access to attribute '" + std::string(name) + "' of '" + describe_object(object) +
                             "' is unsafe");
  }
  if (has_method(object, name)) return runtime.make<Method>(object, name);
  return property(runtime, object, name);
}

/// Resolves an index that may be negative; nullopt if it is out of range.
std::optional<size_t> resolve_index(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  return index >= 0 && static_cast<size_t>(index) < size ? std::optional<size_t>(index) : std::nullopt;
}

Value text_item(Runtime& runtime, const Value& object, size_t index) {
  const std::string& text = object.text();
  const bool ascii = object.text_ref()->ascii();
  if (!ascii) runtime.step_search(text.size());
  const size_t begin = ascii ? index : byte_of_code_point(text, index);
  size_t end = begin;
  next_code_point(text, end);
  return runtime.text(object.traced().part(begin, end), object.is_markup());
}

/// True if Python can hash the value. Unlike hash(), it does not throw.
bool is_hashable(Runtime& runtime, const Value& value) {
  const auto* sequence = value.as<Sequence>();
  if (sequence == nullptr) return !value.is(ObjectKind::kDict) && !value.is(ObjectKind::kView);
  const Runtime::NestingGuard guard(runtime);
  runtime.step(sequence->items.size());
  return !sequence->is_list() && std::all_of(sequence->items.begin(), sequence->items.end(),
                                             [&](const Value& part) { return is_hashable(runtime, part); });
}

std::optional<Value> item(Runtime& runtime, const Value& object, const Value& key) {
  if (const auto* dict = object.as<Dict>()) {
    const Value* found = is_hashable(runtime, key) ? dict->find(runtime, key) : nullptr;
    return found != nullptr ? std::optional<Value>(*found) : std::nullopt;
  }
  const bool is_indexed = object.is_text() || object.as<Sequence>() != nullptr || object.as<Range>() != nullptr;
  if (!is_indexed || !key.is_integer()) return std::nullopt;
  const std::optional<size_t> index = resolve_index(key.integer(), *length(object));
  if (!index) return std::nullopt;
  if (object.is_text()) return text_item(runtime, object, *index);
  if (const auto* range = object.as<Range>()) return range->at(*index);
  return object.as<Sequence>()->items[*index];
}

int64_t slice_bound(Runtime& runtime, const Value& value, int64_t default_value) {
  if (value.is_none()) return default_value;
  if (value.is_undefined()) runtime.fail_undefined(value);
  if (!value.is_integer()) runtime.fail("an index of a slice is ", type_name(value), "; it must be an integer");
  return value.integer();
}

/// Byte offset of each character, and the size of the text.
std::vector<size_t> character_offsets(const std::string& text) {
  std::vector<size_t> offsets = {0};
  for (size_t at = 0; at < text.size(); offsets.push_back(at)) next_code_point(text, at);
  return offsets;
}

struct SliceRange {
  int64_t start, step;
  size_t count;
};

/// Python's slice.indices().
SliceRange slice_range(Runtime& runtime, int64_t size, const Value& start, const Value& stop, const Value& step_value) {
  const int64_t step = slice_bound(runtime, step_value, 1);
  if (step == 0) runtime.fail("the step of a slice is 0");
  const int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? size - 1 : size;
  const auto bound = [&](const Value& value, int64_t default_value) {
    if (value.is_none()) return default_value;
    int64_t index = slice_bound(runtime, value, 0);
    if (index < 0) index = index < -size ? lowest : index + size;
    return std::clamp(index, lowest, highest);
  };
  const int64_t first = bound(start, step < 0 ? highest : lowest), end = bound(stop, step < 0 ? lowest : highest);
  return {first, step, Range(first, end, step).size};
}

}  // namespace

bool has_method(const Value& value, std::string_view name) {
  if (value.is_text()) return has_text_method(name);
  if (value.is_float()) return name == "is_integer";
  if (value.is_integer()) return name == "bit_length";
  if (value.object() == nullptr) return false;
  switch (value.object()->kind) {
    case ObjectKind::kDict:
      return is_one_of(name, {"copy", "fromkeys", "get", "items", "keys", "values"});
    case ObjectKind::kList:
      return is_one_of(name, {"copy", "count", "index"});
    case ObjectKind::kTuple:
    case ObjectKind::kRange:
      return is_one_of(name, {"count", "index"});
    case ObjectKind::kLoop:
      return is_one_of(name, {"cycle", "changed"});
    case ObjectKind::kCycler:
      return is_one_of(name, {"next", "reset"});
    case ObjectKind::kFunction:
      return name == "fromkeys" && value.as<Function>()->name == "dict";
    default:
      return false;
  }
}

Value get_attribute(Runtime& runtime, const Value& object, const std::string& name) {
  // Jinja's Undefined has these attributes; any other one is an Error.
  const bool exists = is_one_of(name, {"__class__", "__init__", "__doc__", "__module__", "__eq__", "__ne__", "__hash__",
                                       "__str__", "__repr__", "__len__", "__iter__", "__bool__", "__call__"});
  if (object.is_undefined() && !exists) runtime.fail_undefined(object);
  if (const std::optional<Value> found = python_attribute(runtime, object, name)) return *found;
  if (const auto* dict = object.as<Dict>()) {
    if (const Value* found = dict->find(runtime, name)) return *found;
  }
  return undefined_attribute(runtime, object, name);
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_undefined()) runtime.fail_undefined(object);
  if (const std::optional<Value> found = item(runtime, object, key)) return *found;
  if (key.is_text()) {
    if (const std::optional<Value> found = python_attribute(runtime, object, key.text())) return *found;
    return undefined_attribute(runtime, object, key.text());
  }
  return runtime.undefined(describe_object(object) + " has no element " + repr(runtime, key));
}

Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) runtime.fail_undefined(object);
  const auto* sequence = object.as<Sequence>();
  const auto* range = object.as<Range>();
  if (!object.is_text() && sequence == nullptr && range == nullptr) {
    runtime.fail("a ", type_name(object), " cannot be sliced; expected a list or a string");
  }
  const SliceRange slice = slice_range(runtime, static_cast<int64_t>(*length(object)), start, stop, step);
  runtime.step(slice.count);
  if (range != nullptr) {
    const int64_t count = static_cast<int64_t>(slice.count);
    int64_t first = 0, slice_step = 0, end = 0;
    if (__builtin_mul_overflow(slice.start, range->step, &first) ||
        __builtin_add_overflow(range->start, first, &first) ||
        __builtin_mul_overflow(range->step, slice.step, &slice_step) ||
        __builtin_mul_overflow(count, slice_step, &end) || __builtin_add_overflow(first, end, &end)) {
      runtime.fail("the slice of a range does not fit into 64 bits");
    }
    return runtime.make<Range>(first, end, slice_step);
  }
  const auto index = [&](size_t i) { return static_cast<size_t>(slice.start + static_cast<int64_t>(i) * slice.step); };
  if (sequence != nullptr) {
    std::vector<Value> items;
    for (size_t i = 0; i < slice.count; ++i) items.push_back(sequence->items[index(i)]);
    return sequence->is_list() ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
  }
  const bool ascii = object.text_ref()->ascii();
  if (!ascii) runtime.step_search(object.text().size());
  const std::vector<size_t> offsets = ascii ? std::vector<size_t>() : character_offsets(object.text());
  const auto offset_of = [&](size_t character) { return ascii ? character : offsets[character]; };
  TracedText text;
  if (slice.step == 1 && slice.count > 0) {
    text.append(object.traced(), offset_of(index(0)), offset_of(index(0) + slice.count));
  } else {
    for (size_t i = 0; i < slice.count; ++i) text.append(object.traced(), offset_of(index(i)), offset_of(index(i) + 1));
  }
  return runtime.text(std::move(text), object.is_markup());
}

}  // namespace keel::jinja
