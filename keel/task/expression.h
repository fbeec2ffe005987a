#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace keel {

/// The value of an expression of integers, + - * / and brackets, and the numbers in it.
struct ExpressionValue {
  int64_t numerator = 0, denominator = 1;  // in lowest terms, denominator > 0
  std::vector<int64_t> numbers;            // in their order in the text
};

/// Parses and evaluates an expression in exact fractions, including \times, \cdot, \div and their Unicode signs.
/// Returns nullopt for anything else (unary signs, adjacent numbers, leading zeros, powers), division by zero, more
/// than `max_numbers` numbers, or excessive length, depth or magnitude. Never throws.
std::optional<ExpressionValue> evaluate_expression(std::string_view text, size_t max_numbers);

}  // namespace keel
