#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

/// Quotes the text as one word of a shell command, with single quotes if needed.
std::string shell_word(const std::string& text);

/// Splits a command line at spaces, except inside '...' or "..." or after a backslash. Returns nullopt for an unclosed
/// quote.
std::optional<std::vector<std::string>> shell_words(std::string_view text);

}  // namespace keel
