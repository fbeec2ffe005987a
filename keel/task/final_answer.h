#pragma once

#include <string>
#include <string_view>

namespace keel {

/// Returns the final answer of a completion, or "". It is located as in the math verifier (\boxed{}, "####", <answer>,
/// "answer is", else the last line). Surrounding quotes, dollar signs and \text{} are removed, and so is a stop token
/// at the end: <eos>, </s>, <end_of_turn> or <|...|>.
std::string final_answer(std::string_view completion);

}  // namespace keel
