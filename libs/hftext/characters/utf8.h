#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace keel::text {

struct CodePoint {
  char32_t value = 0;
  size_t size = 0;  // bytes
};

/// The code point at byte `at`, which must be the start of a code point in `text`. `text` is valid UTF-8.
CodePoint code_point_at(std::string_view text, size_t at);

/// The code point that ends before byte `end`; `text` is valid UTF-8 and `end` is above 0.
CodePoint code_point_before(std::string_view text, size_t end);

void append_utf8(std::string& text, char32_t code_point);

/// Replaces each maximal invalid part by U+FFFD, as Rust's from_utf8_lossy and Python's "replace" do.
std::string lossy_utf8(std::string_view bytes);

/// Unicode White_Space, the same 25 characters since Unicode 6.3.
bool is_white_space(char32_t code_point);

}  // namespace keel::text
