#pragma once

#include <string>
#include <vector>

namespace keel::cli {

/// Formats rows of equal size as an indented table; row 0 is the header. Columns (from 0) in `left_aligned` are aligned
/// left, the others right. Control characters in cells are escaped.
std::string text_table(std::vector<std::vector<std::string>> rows, const std::vector<size_t>& left_aligned);

/// Formats a fraction as a percentage: "1.25 %".
std::string percent(double fraction);

/// Formats a number; "-" for NaN and infinity.
std::string number_or_dash(double value, int digits = 3);

/// A token's text in quotes, shortened, with control characters escaped.
std::string quote_token(const std::string& text);

}  // namespace keel::cli
