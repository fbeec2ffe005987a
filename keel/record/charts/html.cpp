#include "keel/record/charts/html.h"

#include "keel/core/console.h"

namespace keel {

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string escape_untrusted(std::string_view text) { return escape_html(escape_controls(text, Newlines::kKeep)); }

}  // namespace keel
