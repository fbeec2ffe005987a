#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace keel {

/// The final answer in a completion: the last balanced \boxed{} or \fbox{}; else what follows the last "####"; else
/// the last <answer></answer>; else what follows the last "answer is" or "answer:"; else the last line that is not
/// blank. Nothing when there is only white space.
std::optional<std::string> extract_math_answer(std::string_view completion);

}  // namespace keel
