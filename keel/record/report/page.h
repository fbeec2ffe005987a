#pragma once

#include <string>

namespace keel {

/// A self-contained HTML page that loads nothing, so that it works in archives and e-mails.
struct Page {
  std::string title;        // as text
  std::string before = {};  // HTML above the <main> element
  std::string body = {};    // HTML in it
  std::string style = {}, script = {};
  bool fetches_from_server = false;  // whether the script may send requests to its own server
};

std::string page_html(const Page& page);

/// Its Content-Security-Policy allows only the page's own script and style, in case a model's text escapes the
/// escaping.
std::string page_policy(const Page& page);

}  // namespace keel
