#include "keel/core/foreign_text.h"

#include "keel/core/json.h"

namespace keel {

std::string printable(std::string_view text) {
  constexpr size_t kShown = 80;
  const std::string shown = Json(text.substr(0, kShown)).dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > kShown ? shown + "... (" + std::to_string(text.size()) + " bytes)" : shown;
}

std::optional<size_t> first_bad_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto within = [](unsigned value, unsigned low, unsigned high) { return low <= value && value <= high; };
  for (size_t i = 0; i < text.size();) {
    const unsigned lead = byte(i);
    const size_t length = lead < 0x80 ? 1 : within(lead, 0xc2, 0xdf) ? 2 : within(lead, 0xe0, 0xef) ? 3 : 4;
    if (lead >= 0x80 && !within(lead, 0xc2, 0xf4)) return i;
    // Overlong forms, surrogates and values above U+10FFFF show in the second byte.
    const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (length > 1 && !within(byte(i + 1), low, high)) return i;
    for (size_t k = 2; k < length; ++k) {
      if (!within(byte(i + k), 0x80, 0xbf)) return i;
    }
    i += length;
  }
  return std::nullopt;
}

}  // namespace keel
