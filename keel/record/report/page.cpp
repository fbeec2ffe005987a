#include "keel/record/report/page.h"

#include <vector>

#include "keel/core/base64.h"
#include "keel/core/console.h"
#include "keel/core/files/hash.h"
#include "keel/record/charts/html.h"

namespace keel {
namespace {

/// The Content-Security-Policy source that allows exactly this <script> or <style> text.
std::string hash_source(std::string_view text) {
  const std::string hex = sha256_hex(text);
  std::vector<std::byte> bytes;
  for (size_t at = 0; at < hex.size(); at += 2)
    bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(at, 2), nullptr, 16)));
  return "'sha256-" + base64(bytes) + "'";
}

}  // namespace

std::string page_policy(const Page& page) {
  const char* server = page.fetches_from_server ? "'self'" : "'none'";
  return "default-src 'none'; style-src " + hash_source(page.style) + "; script-src " + hash_source(page.script) +
         "; connect-src " + server + "; base-uri 'none'; form-action " + server;
}

std::string page_html(const Page& page) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"" +
         page_policy(page) +
         "\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
         "<meta name=\"color-scheme\" content=\"light dark\"><title>" +
         escape_untrusted(shorten(page.title, 120)) + " · Keel</title><style>" + page.style + "</style></head><body>" +
         page.before + "<main>" + page.body + "</main><script>" + page.script + "</script></body></html>\n";
}

}  // namespace keel
