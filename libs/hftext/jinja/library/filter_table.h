#pragma once

#include <string_view>
#include <vector>

#include "libs/hftext/jinja/objects/builtins.h"

namespace keel::jinja {

struct FilterRow {
  std::string_view name;
  Value (*filter)(Runtime& runtime, const Value& input, const Arguments& arguments);
};

/// For a filter that takes no arguments.
void expect_none(Runtime& runtime, std::string_view name, const Arguments& arguments);

// The filters by what they work on; filters.cpp puts them together.
std::vector<FilterRow> text_filters();
std::vector<FilterRow> number_filters();
std::vector<FilterRow> sequence_filters();
std::vector<FilterRow> selection_filters();

}  // namespace keel::jinja
