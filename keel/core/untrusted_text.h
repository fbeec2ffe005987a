#pragma once

// Handles text from untrusted files.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace keel {

/// Returns the text for messages: truncated, in quotes, with all but printable ASCII escaped.
std::string printable(std::string_view text);

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 1;
  bool valid = false;
};

/// Decodes the UTF-8 character that starts at byte `at` (Unicode, table 3-7). An invalid byte has `valid` false.
CodePoint code_point_at(std::string_view text, size_t at);

/// Returns the index of the first byte that is not well-formed UTF-8 (Unicode, table 3-7).
std::optional<size_t> first_bad_utf8(std::string_view text);

}  // namespace keel
