#pragma once

#include <optional>
#include <string>

namespace keel::cli {

// Reading of standard input. More than 16 MiB, or a failed read, is an Error (kBadInput).

/// The next line without its newline; std::nullopt at the end of the input.
std::optional<std::string> next_line_of_input();

/// The whole input without the final newline.
std::string all_of_input();

}  // namespace keel::cli
