#pragma once

// What a final answer says, where a plain reading of it is enough (answer_rewards.h).

#include <optional>
#include <string_view>

namespace keel {

/// The number that an answer is: the value of a formula ("-3", "1/2", "10^3", "$5", "x = 5 cm", "5%" as 5), else the
/// last number of a sentence. Nothing where that number is part of something larger: "x_2", "3x", "(1, 2)", "4-5
/// hours".
std::optional<double> number_in(std::string_view answer);

/// The letter that an answer chooses, in upper case: "B", "(B)", "B. Paris", "**B**", "\text{B}", "Option B", "the
/// correct choice is B". Nothing for several letters ("A, B", "A or B") and for words ("Bob", "a dog").
std::optional<char> choice_in(std::string_view answer);

}  // namespace keel
