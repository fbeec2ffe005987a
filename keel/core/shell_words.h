#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

/// A text as one word of a command line: in single quotes where it needs them.
std::string shell_word(const std::string& text);

/// The words of a command line: split at spaces, but not inside '...' or "...", nor behind a backslash. Nothing where a
/// quote is not closed.
std::optional<std::vector<std::string>> shell_words(std::string_view text);

}  // namespace keel
