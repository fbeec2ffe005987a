#pragma once

// Small things about texts that several rooms need; ASCII only.

#include <string>
#include <string_view>
#include <vector>

namespace keel {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Without the white space (blanks, tabs, line ends) at both ends.
std::string_view trimmed(std::string_view text);

/// Whatever the locale says: A to Z alone.
std::string lower_case(std::string text);

/// `items` with `separator` between them.
std::string joined(const std::vector<std::string>& items, const std::string& separator = ", ");

/// A number with this many decimals; never "-0.00".
std::string fixed(double value, int decimals);
/// The same as a power of ten, with one decimal: 1.6e-08.
std::string scientific(double value);

}  // namespace keel
