#pragma once

#include <string_view>

#include "libs/hftext/jinja/objects/builtins.h"

namespace keel::jinja {

Value call_text_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& arguments);

// Groups of str methods; nullopt if `name` is not in the group.
std::optional<Value> call_search_method(Runtime& runtime, const Value& self, std::string_view name,
                                        const Arguments& arguments);
std::optional<Value> call_split_method(Runtime& runtime, const Value& self, std::string_view name,
                                       const Arguments& arguments);

/// Implements str.format(*arguments) and str.format_map(mapping).
TracedText format_braces(Runtime& runtime, const Value& format, const Arguments& arguments);

}  // namespace keel::jinja
