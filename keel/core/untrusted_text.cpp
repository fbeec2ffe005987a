#include "keel/core/untrusted_text.h"

#include <array>

#include "keel/core/json.h"

namespace keel {

std::string printable(std::string_view text) {
  constexpr size_t kShown = 80;
  const std::string shown = Json(text.substr(0, kShown)).dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > kShown ? shown + "... (" + std::to_string(text.size()) + " bytes)" : shown;
}

CodePoint code_point_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {lead, 1, true};
  const size_t bytes = lead >= 0xF0 && lead <= 0xF4  ? 4
                       : lead >= 0xE0 && lead < 0xF0 ? 3
                       : lead >= 0xC2 && lead < 0xE0 ? 2
                                                     : 0;
  if (bytes == 0 || at + bytes > text.size()) return {lead, 1, false};
  uint32_t value = lead & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return {lead, 1, false};
    value = value << 6 | (byte(at + i) & 0x3F);
  }
  constexpr std::array<uint32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[bytes] || value > 0x10FFFF || surrogate) return {lead, 1, false};
  return {value, bytes, true};
}

std::optional<size_t> first_bad_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (!point.valid) return at;
    at += point.bytes;
  }
  return std::nullopt;
}

}  // namespace keel
