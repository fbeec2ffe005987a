#pragma once

// Text out of files that strangers wrote, before it is shown or believed.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace keel {

/// The text made safe to print: cut short, in quotes, everything but plain ASCII escaped.
std::string printable(std::string_view text);

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 1;
  bool valid = false;
};

/// Decodes the character that begins at a byte; a byte that begins none (Unicode, table 3-7) is one that is not valid.
CodePoint code_point_at(std::string_view text, size_t at);

/// The place of the first byte that is not well-formed UTF-8 (Unicode, table 3-7).
std::optional<size_t> first_bad_utf8(std::string_view text);

}  // namespace keel
