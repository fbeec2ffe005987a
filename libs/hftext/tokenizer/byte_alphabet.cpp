#include "libs/hftext/tokenizer/byte_alphabet.h"

#include <array>

#include "libs/hftext/characters/utf8.h"

namespace keel::text {
namespace {

constexpr char32_t kFirstMoved = 256, kEnd = 256 + 68;  // 68 bytes have no printable character of their own

bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  Alphabet() {
    char32_t moved = kFirstMoved;
    for (int byte = 0; byte < 256; ++byte) {
      const char32_t character = is_printable(byte) ? static_cast<char32_t>(byte) : moved++;
      append_utf8(text[static_cast<size_t>(byte)], character);
      bytes[character] = byte;
    }
  }
  std::array<std::string, 256> text;
  std::array<int, kEnd> bytes = [] {
    std::array<int, kEnd> none;
    none.fill(-1);
    return none;
  }();
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::string_view byte_character(unsigned char byte) { return alphabet().text[byte]; }

std::optional<unsigned char> character_byte(char32_t code_point) {
  if (code_point >= kEnd || alphabet().bytes[code_point] < 0) return std::nullopt;
  return static_cast<unsigned char>(alphabet().bytes[code_point]);
}

void append_byte_characters(std::string& text, std::string_view bytes) {
  const Alphabet& table = alphabet();
  for (const char byte : bytes) text += table.text[static_cast<unsigned char>(byte)];
}

std::optional<std::string> bytes_of_characters(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    const std::optional<unsigned char> byte = character_byte(c.value);
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
    at += c.size;
  }
  return bytes;
}

}  // namespace keel::text
