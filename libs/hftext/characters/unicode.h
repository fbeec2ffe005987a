#pragma once

// What Unicode says about characters, by utf8proc. A build without it (KEEL_TOKENIZERS off) refuses tokenizers that
// ask.

#include <cstdint>
#include <string>
#include <string_view>

namespace keel::text {

/// Whether this build has utf8proc and PCRE2.
bool has_unicode_tables();

/// An Error where this build lacks them; `what` needs them, `place` says where it stands.
void require_unicode_tables(std::string_view what, const std::string& place);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// `text` is valid UTF-8.
std::string normalize(std::string_view text, NormalForm form);

/// Appends the lower case of one character, which is two characters for one of them.
void append_lower_case(std::string& text, char32_t code_point);

/// A text as one compares it without regard to case: Unicode's full case folding, then NFC. ASCII only in a build
/// without the tables. `text` is valid UTF-8.
std::string fold_case(std::string_view text);

/// General category as a bit, and the bits of a category's name ("L", "Lu"; 0 for other names), as regular expressions
/// of the package know them.
uint32_t category_bit(char32_t code_point);
uint32_t category_bits(std::string_view name);

bool is_mark(char32_t code_point);         // general category M, as StripAccents sees it
bool is_number(char32_t code_point);       // general category N
bool is_punctuation(char32_t code_point);  // general category P, or one of the symbols of ASCII

}  // namespace keel::text
