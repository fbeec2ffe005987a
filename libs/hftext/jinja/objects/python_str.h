#pragma once

// Python's str functions on valid UTF-8: strings are sequences of code points.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace keel::jinja {

/// Returns the code point at byte `at` and advances `at` past it.
char32_t next_code_point(std::string_view text, size_t& at);
void append_code_point(std::string& text, char32_t code);
size_t code_point_count(std::string_view text);
/// Byte offset of code point `index`, or the size of the text if there are fewer.
size_t byte_of_code_point(std::string_view text, size_t index);
std::u32string code_points(std::string_view text);
std::string utf8(std::u32string_view text);

// Python's str.isspace() and others for one character.
bool is_space(char32_t code);
bool is_line_break(char32_t code);
bool is_printable(char32_t code);
bool is_alpha(char32_t code);
bool is_decimal(char32_t code);
bool is_digit(char32_t code);
bool is_numeric(char32_t code);
bool is_lower(char32_t code);
bool is_upper(char32_t code);
bool is_title(char32_t code);
inline bool is_alnum(char32_t code) { return is_alpha(code) || is_decimal(code) || is_digit(code) || is_numeric(code); }
inline bool is_cased(char32_t code) { return is_lower(code) || is_upper(code) || is_title(code); }

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);
/// The first character in title case, the others in lower case.
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);

/// Bytes of leading and trailing white space; both are the full size if there is nothing else.
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);
std::string_view strip(std::string_view text);

}  // namespace keel::jinja
