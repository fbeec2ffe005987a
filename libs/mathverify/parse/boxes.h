#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace keel::math {

/// What stands in the last balanced \boxed{} or \fbox{}. Boxes with nothing but a comma, "and" or "or" between them are
/// one answer: "\boxed{-2} and \boxed{1}" says "-2, 1".
std::optional<std::string> last_boxes(std::string_view text);

}  // namespace keel::math
