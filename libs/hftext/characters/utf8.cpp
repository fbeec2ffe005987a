#include "libs/hftext/characters/utf8.h"

namespace keel::text {
namespace {

struct Step {
  size_t size = 0;     // bytes of the character, or of the maximal invalid part
  bool valid = false;  // a complete character
};

/// Decodes the bytes at `at`. The second byte's limits exclude overlong forms, surrogates and values above U+10FFFF.
Step step_at(std::string_view bytes, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {.size = 1, .valid = true};
  if (first < 0xC2 || first > 0xF4) return {.size = 1};
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (at + i == bytes.size()) return {.size = i};
    const unsigned char next = byte(i);
    if (next < (i == 1 ? low : 0x80) || next > (i == 1 ? high : 0xBF)) return {.size = i};
  }
  return {.size = length, .valid = true};
}

}  // namespace

CodePoint code_point_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

CodePoint code_point_before(std::string_view text, size_t end) {
  size_t start = end - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  return code_point_at(text, start);
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto push = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) return push(code_point);
  if (code_point < 0x800) return push(0xC0 | code_point >> 6), push(0x80 | (code_point & 0x3F));
  if (code_point < 0x10000) {
    push(0xE0 | code_point >> 12);
  } else {
    push(0xF0 | code_point >> 18), push(0x80 | (code_point >> 12 & 0x3F));
  }
  push(0x80 | (code_point >> 6 & 0x3F)), push(0x80 | (code_point & 0x3F));
}

std::string lossy_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const Step step = step_at(bytes, at);
    text += step.valid ? bytes.substr(at, step.size) : std::string_view("\uFFFD");
    at += step.size;
  }
  return text;
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace keel::text
