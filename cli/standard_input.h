#pragma once

#include <optional>
#include <string>

namespace keel::cli {

// What someone types or a pipe brings. More than any prompt has (16 MiB), or what cannot be read, is an Error
// (kBadInput).

/// The next line without its end; nothing at the end of all.
std::optional<std::string> next_line_of_input();

/// All that comes, without the end of its last line.
std::string all_of_input();

}  // namespace keel::cli
