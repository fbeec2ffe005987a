#pragma once

// String helpers for ASCII text.

#include <string>
#include <string_view>
#include <vector>

namespace keel {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Removes white space (spaces, tabs, line ends) from both ends.
std::string_view trimmed(std::string_view text);

/// Converts A to Z to lower case, independent of the locale.
std::string lower_case(std::string text);

std::string joined(const std::vector<std::string>& items, const std::string& separator = ", ");

/// Formats a number with `decimals` decimals; never "-0.00".
std::string fixed(double value, int decimals);
/// Formats a number in scientific notation with one decimal: 1.6e-08.
std::string scientific(double value);

}  // namespace keel
