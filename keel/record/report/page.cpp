#include "keel/record/report/page.h"

#include "keel/core/console.h"
#include "keel/core/files/hash.h"
#include "keel/record/charts/html.h"

namespace keel {
namespace {

/// The source of a Content-Security-Policy that lets this text of a <script> or <style> element pass, and no other.
std::string hash_source(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string hex = sha256_hex(text);
  std::string base64;
  for (size_t at = 0; at < hex.size(); at += 6) {  // 24 bits are 6 hexadecimal digits and 4 of these
    const std::string part = hex.substr(at, 6);
    const unsigned long bits = std::stoul(part + std::string(6 - part.size(), '0'), nullptr, 16);
    const size_t whole = part.size() * 4 / 6 + (part.size() < 6 ? 1 : 0);
    for (size_t i = 0; i < 4; ++i) base64 += i < whole ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return "'sha256-" + base64 + "'";
}

}  // namespace

std::string page_policy(const Page& page) {
  const char* server = page.asks_server ? "'self'" : "'none'";
  return "default-src 'none'; style-src " + hash_source(page.style) + "; script-src " + hash_source(page.script) +
         "; connect-src " + server + "; base-uri 'none'; form-action " + server;
}

std::string page_html(const Page& page) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"" +
         page_policy(page) +
         "\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
         "<meta name=\"color-scheme\" content=\"light dark\"><title>" +
         escape_foreign(shorten(page.title, 120)) + " · Keel</title><style>" + page.style + "</style></head><body>" +
         page.before + "<main>" + page.body + "</main><script>" + page.script + "</script></body></html>\n";
}

}  // namespace keel
