#pragma once

#include <optional>
#include <string>

namespace keel::cli {

// Functions that read standard input. More than 16 MiB in one call, or a failed read, is an Error (kBadInput).

/// Returns the next line without its newline; std::nullopt at the end of the input.
std::optional<std::string> read_input_line();

/// Returns the rest of the input without the final newline.
std::string read_all_input();

}  // namespace keel::cli
