#pragma once

#include <string>

namespace keel {

/// A self-contained HTML page: nothing is fetched from anywhere, so that it keeps working in an archive and inside a
/// mail.
struct Page {
  std::string title;        // as text
  std::string before = {};  // HTML above the <main> element
  std::string body = {};    // HTML in it
  std::string style = {}, script = {};
  bool fetches_from_server = false;  // whether the script may ask the server that the page comes from
};

std::string page_html(const Page& page);

/// Its Content-Security-Policy: no script or style but the page's own is obeyed, should a text of a model ever get past
/// the escaping.
std::string page_policy(const Page& page);

}  // namespace keel
