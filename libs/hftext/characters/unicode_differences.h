#pragma once

// Code points where the tokenizers package differs from utf8proc and PCRE2, because their Unicode versions differ. Keel
// follows the package to get the same ids.

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

enum class PropertyKind { kProperty, kScript, kNewScript };  // kNewScript: PCRE2 may not know the script at all

/// Code points of a script or of another property that PCRE2 may not know yet. Names are in lower case without spaces.
struct NewProperty {
  std::string_view name, alias;
  PropertyKind kind = PropertyKind::kProperty;
  std::span<const CodeRange> ranges;
};

/// True if `c` is in one of the sorted ranges.
bool in_ranges(std::span<const CodeRange> ranges, char32_t c);

std::span<const CodeRange> not_normalized();
std::span<const CodeRange> not_compatible();
std::span<const CodeRange> not_marks();
std::span<const CodeRange> not_punctuation();
std::span<const CodeRange> also_punctuation();
std::span<const NewCategory> new_categories();
std::span<const NewProperty> new_properties();

}  // namespace keel::text
