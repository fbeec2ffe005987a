#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace keel {

/// Extracts the final answer of a completion, from the first of these that exists: the last balanced \boxed{} or
/// \fbox{}, the text after the last "####", the last <answer></answer>, the text after the last "answer is" or
/// "answer:", the last non-blank line. Returns nullopt for white space.
std::optional<std::string> extract_math_answer(std::string_view completion);

}  // namespace keel
