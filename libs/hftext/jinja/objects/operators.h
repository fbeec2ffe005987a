#pragma once

#include "libs/hftext/jinja/objects/operator.h"
#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

// Python's operators. Integers have 64 bits; overflow is an Error.
Value binary(Runtime& runtime, Operator op, const Value& a, const Value& b);
Value unary(Runtime& runtime, Operator op, const Value& value);
bool compare(Runtime& runtime, Operator op, const Value& a, const Value& b);
Value add(Runtime& runtime, const Value& a, const Value& b);

/// x.name: a method or property of Python's type first, then an item. Undefined if there is neither.
Value get_attribute(Runtime& runtime, const Value& object, const std::string& name);
/// x[key]: an item first, then an attribute.
Value get_item(Runtime& runtime, const Value& object, const Value& key);
/// x[start:stop:step]; None means omitted.
Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step);

/// True if the value's Python type has this method and templates may call it.
bool has_method(const Value& value, std::string_view name);

/// Python's `text % values`.
TracedText format_percent(Runtime& runtime, const Value& format, const Value& values);

}  // namespace keel::jinja
