#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

/// The final answer of a completion, found as the math verifier finds it (\boxed{}, "####", <answer>, "answer is", else
/// the last line) and freed of quotes, dollar signs and \text{} around it; empty when there is none. A stop token at
/// the end, spelled <eos>, </s>, <end_of_turn> or <|...|>, is no part of it.
std::string final_answer(std::string_view completion);

// Literals only: an answer that still has to be worked out, such as the question itself, is none.

/// "-12", "1,234", "x = 12" or "3 + 9 = 12".
std::optional<int64_t> literal_integer(std::string_view answer);

/// "[3, -1, 2]", "3, -1, 2" or "3 -1 2"; at most `limit` numbers.
std::optional<std::vector<int64_t>> literal_list(std::string_view answer, size_t limit);

}  // namespace keel
