#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace keel {

/// What an expression of whole numbers, + - * / and brackets is worth, and which numbers it uses.
struct ExpressionValue {
  int64_t numerator = 0, denominator = 1;  // in lowest terms, the denominator above 0
  std::vector<int64_t> numbers;            // in the order they are written
};

/// Reads and works out an expression in exact fractions. Nothing when it is anything else (signs before a number,
/// numbers side by side, leading zeros, powers), divides by zero, uses more than `most_numbers` numbers, or is too
/// long, too deep or too large. \times, \cdot, \div and their signs are understood. Never throws.
std::optional<ExpressionValue> evaluate_expression(std::string_view text, size_t most_numbers);

}  // namespace keel
