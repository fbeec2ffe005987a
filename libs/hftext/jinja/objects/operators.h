#pragma once

#include "libs/hftext/jinja/objects/operator.h"
#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

// Python's operators. Integers have 64 bits; a result that needs more is an Error.
Value binary(Runtime& runtime, Operator op, const Value& a, const Value& b);
Value unary(Runtime& runtime, Operator op, const Value& value);
bool compare(Runtime& runtime, Operator op, const Value& a, const Value& b);
Value add(Runtime& runtime, const Value& a, const Value& b);

/// x.name: a method or property of Python's type first, then an item. Undefined when there is neither.
Value get_attribute(Runtime& runtime, const Value& object, const std::string& name);
/// x[key]: an item first.
Value get_item(Runtime& runtime, const Value& object, const Value& key);
/// x[start:stop:step]; None stands for what was left out.
Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step);

/// Whether Python's type of the value has a method of this name that a template may call.
bool has_method(const Value& value, std::string_view name);

/// Python's `text % values`.
TracedText format_percent(Runtime& runtime, const Value& format, const Value& values);

}  // namespace keel::jinja
