#include "keel/record/html.h"

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

std::string escape_foreign(std::string_view text) { return escape_html(escape_controls(text, Newlines::kKeep)); }

std::string shorten(std::string_view utf8, size_t bytes) {
  if (utf8.size() <= bytes) return std::string(utf8);
  while (bytes > 0 && (static_cast<unsigned char>(utf8[bytes]) & 0xC0) == 0x80) --bytes;
  return std::string(utf8.substr(0, bytes)) + " … (" + format_count(static_cast<int64_t>(utf8.size() - bytes)) +
         " more bytes)";
}

}  // namespace keel
