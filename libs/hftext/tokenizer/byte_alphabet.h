#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace keel::text {

// GPT-2's byte alphabet maps each byte to a printable character, so that a vocabulary of byte strings is valid text.

/// The character of a byte, as UTF-8 of one or two bytes.
std::string_view byte_character(unsigned char byte);

/// The byte of a character; nullopt if it is not in the alphabet.
std::optional<unsigned char> character_byte(char32_t code_point);

void append_byte_characters(std::string& text, std::string_view bytes);

/// Decodes valid UTF-8 `text` to bytes; nullopt if a character is not in the alphabet.
std::optional<std::string> bytes_of_characters(std::string_view text);

}  // namespace keel::text
