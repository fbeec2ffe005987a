#pragma once

// Unicode properties and normalization, from utf8proc. A build with KEEL_TOKENIZERS off rejects tokenizers that need
// it.

#include <cstdint>
#include <string>
#include <string_view>

namespace keel::text {

/// True if this build has utf8proc and PCRE2.
bool has_unicode_tables();

/// Throws an Error if this build lacks them. `what` names the feature that needs them, `location` where it is used.
void require_unicode_tables(std::string_view what, const std::string& location);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// `text` is valid UTF-8.
std::string normalize(std::string_view text, NormalForm form);

/// Appends the lower case of one character; U+0130 becomes two characters.
void append_lower_case(std::string& text, char32_t code_point);

/// Folds valid UTF-8 for caseless comparison: full case folding, then NFC; only ASCII in a build without the tables.
std::string fold_case(std::string_view text);

/// The general category of a character as a bit, and the bits of a category name ("L", "Lu"; 0 for other names). Both
/// follow the regular expressions of the tokenizers package.
uint32_t category_bit(char32_t code_point);
uint32_t category_bits(std::string_view name);

bool is_mark(char32_t code_point);         // general category M, as StripAccents defines it
bool is_number(char32_t code_point);       // general category N
bool is_punctuation(char32_t code_point);  // general category P, or an ASCII symbol

}  // namespace keel::text
