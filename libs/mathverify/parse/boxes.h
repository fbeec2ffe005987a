#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace keel::math {

/// Returns the content of the last balanced \boxed{} or \fbox{}. Boxes separated only by a comma, "and" or "or" are one
/// answer: "\boxed{-2} and \boxed{1}" gives "-2, 1".
std::optional<std::string> last_boxed_answer(std::string_view text);

}  // namespace keel::math
