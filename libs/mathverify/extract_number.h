#pragma once

#include <optional>
#include <string_view>

namespace keel {

/// Extracts the number of an answer: the value of a formula ("-3", "1/2", "10^3", "$5", "x = 5 cm", "5%" as 5), else
/// the last number of a sentence. Returns nullopt if that number is part of something larger: "x_2", "3x", "(1, 2)",
/// "4-5 hours".
std::optional<double> extract_number(std::string_view answer);

}  // namespace keel
