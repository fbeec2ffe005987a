#pragma once

// Built-in filters, tests, functions and methods by name.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  bool untrusted_names = false;  // some names come from an untrusted dict after **
};

/// The name of an argument as a string value.
Value name_of(Runtime& runtime, const Arguments& arguments, const std::string& name);

bool is_filter(std::string_view name);
bool is_test(std::string_view name);

Value call_filter(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments);
bool call_test(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments);
Value call_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& arguments);
/// Calls a global function: range, dict, namespace ...
Value call_function(Runtime& runtime, std::string_view name, const Arguments& arguments);
const std::vector<std::string_view>& function_names();

}  // namespace keel::jinja
