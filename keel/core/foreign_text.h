#pragma once

// Text out of files that strangers wrote, before it is shown or believed.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace keel {

/// The text made safe to print: cut short, in quotes, everything but plain ASCII escaped.
std::string printable(std::string_view text);

/// The place of the first byte that is not well-formed UTF-8 (Unicode, table 3-7).
std::optional<size_t> first_bad_utf8(std::string_view text);

}  // namespace keel
