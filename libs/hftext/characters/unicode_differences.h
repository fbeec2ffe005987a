#pragma once

// Code points on which the tokenizers package and the libraries used here disagree, because their Unicode tables are of
// different ages. To get the same ids, the package is followed.

#include <span>
#include <string_view>

namespace keel::text {

struct CodeRange {
  char32_t first = 0, last = 0;
};

/// Code points of one general category ("Lo") that PCRE2 may not know yet.
struct NewCategory {
  std::string_view name;
  std::span<const CodeRange> ranges;
};

enum class PropertyKind { kProperty, kScript, kNewScript };  // the last: PCRE2 may not know even its name

/// Code points of a script or of another property that PCRE2 may not know yet; names in small letters, without spaces.
struct NewProperty {
  std::string_view name, alias;
  PropertyKind kind = PropertyKind::kProperty;
  std::span<const CodeRange> ranges;
};

/// Whether `c` lies in one of the ranges, which are in order.
bool in_ranges(std::span<const CodeRange> ranges, char32_t c);

std::span<const CodeRange> not_normalized();
std::span<const CodeRange> not_compatible();
std::span<const CodeRange> not_marks();
std::span<const CodeRange> not_punctuation();
std::span<const CodeRange> also_punctuation();
std::span<const NewCategory> new_categories();
std::span<const NewProperty> new_properties();

}  // namespace keel::text
