#pragma once

#include <string>
#include <string_view>

namespace keel {

/// Text that means itself inside HTML or SVG, in an element and in a quoted attribute.
std::string escape_html(std::string_view text);

/// Text of a model or a user for a page: controls and bidi marks made visible, then escaped; newlines and tabs stay.
std::string escape_foreign(std::string_view text);

/// The beginning of a text, cut at a character so that at most `bytes` bytes remain, with a note of what was left out.
std::string shorten(std::string_view utf8, size_t bytes);

}  // namespace keel
