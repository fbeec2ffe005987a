#pragma once

#include <string>
#include <string_view>

namespace keel {

/// The final answer of a completion, found as the math verifier finds it (\boxed{}, "####", <answer>, "answer is", else
/// the last line) and freed of quotes, dollar signs and \text{} around it; empty when there is none. A stop token at
/// the end, spelled <eos>, </s>, <end_of_turn> or <|...|>, is no part of it.
std::string final_answer(std::string_view completion);

}  // namespace keel
