#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace keel::text {

// GPT-2's alphabet: each byte is one printable character, so that a vocabulary of byte strings can be written as text.

/// The character of a byte, as UTF-8 of one or two bytes.
std::string_view byte_character(unsigned char byte);

/// The byte of a character; nothing when it is no character of the alphabet.
std::optional<unsigned char> character_byte(char32_t code_point);

/// Appends the characters of all bytes.
void append_byte_characters(std::string& text, std::string_view bytes);

/// The bytes that valid UTF-8 `text` stands for; nothing when some character is not of the alphabet.
std::optional<std::string> bytes_of_characters(std::string_view text);

}  // namespace keel::text
