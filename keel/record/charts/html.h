#pragma once

#include <string>
#include <string_view>

namespace keel {

/// Escapes text for HTML and SVG elements and quoted attributes.
std::string escape_html(std::string_view text);

/// Escapes text of a model or user: makes control characters (except newlines and tabs) and bidi marks visible, then
/// escapes HTML.
std::string escape_untrusted(std::string_view text);

}  // namespace keel
