#pragma once

#include <string>
#include <string_view>

namespace keel {

/// Text that means itself inside HTML or SVG, in an element and in a quoted attribute.
std::string escape_html(std::string_view text);

/// Text of a model or a user for a page: controls and bidi marks made visible, then escaped; newlines and tabs stay.
std::string escape_untrusted(std::string_view text);

}  // namespace keel
