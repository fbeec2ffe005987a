#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace keel::text {

/// Characters for a set of PCRE2: these members, or all characters but them.
struct CharacterClass {
  std::string members;
  bool negated = false;
  bool by_case = false;  // capital or small letters
};

/// What \p{name} means to Oniguruma: a general category, a script, or one of the other properties that are known here,
/// without regard to case, spaces, hyphens and underscores; with the code points that are newer than PCRE2's tables.
/// Nothing for other names, or for those whose members here would be others. PCRE2 itself takes the name of a script
/// for the script's extensions.
std::optional<CharacterClass> property_class(std::string_view name, bool in_set);

/// Oniguruma's \w. Some numbers of Latin-1 are words to it, but not inside of a set.
std::string word_members(bool in_set);

std::string decimal_members();  // \d

/// One code point as PCRE2 reads it.
std::string hex(char32_t code_point);

}  // namespace keel::text
