#pragma once

#include <optional>
#include <string_view>

namespace keel {

/// Extracts the chosen letter in upper case: "B", "(B)", "B. Paris", "**B**", "\text{B}", "Option B", "the correct
/// choice is B". Returns nullopt for several letters ("A, B", "A or B") and for words ("Bob", "a dog").
std::optional<char> extract_choice(std::string_view answer);

}  // namespace keel
