#pragma once

#include <string>
#include <vector>

namespace keel::cli {

/// Rows of equally many cells below each other, the first of them the header, indented; `left` are the columns (from 0)
/// that stand at the left, numbers stand at the right. Cells may come from files of strangers.
std::string text_table(std::vector<std::vector<std::string>> rows, const std::vector<size_t>& left);

/// A share for people: "1.25 %".
std::string percent(double share);

/// "-" where it is no number.
std::string number_or_dash(double value, int digits = 3);

/// A token's text in quotes, short, with what could steer a terminal made visible.
std::string quote_token(const std::string& text);

}  // namespace keel::cli
