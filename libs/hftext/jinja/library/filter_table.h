#pragma once

#include <string_view>
#include <vector>

#include "libs/hftext/jinja/objects/builtins.h"

namespace keel::jinja {

struct FilterRow {
  std::string_view name;
  Value (*filter)(Runtime& runtime, const Value& input, const Arguments& arguments);
};

/// Throws an Error if a filter without parameters gets arguments.
void expect_none(Runtime& runtime, std::string_view name, const Arguments& arguments);

// Filters grouped by input type; filters.cpp combines them.
std::vector<FilterRow> text_filters();
std::vector<FilterRow> number_filters();
std::vector<FilterRow> sequence_filters();
std::vector<FilterRow> selection_filters();

}  // namespace keel::jinja
