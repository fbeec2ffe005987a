#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace keel::text {

/// Members of a PCRE2 set, or of its complement.
struct CharacterClass {
  std::string members;
  bool negated = false;
  bool depends_on_case = false;
};

/// Resolves Oniguruma's \p{name}: a general category, a script or another supported property, including code points
/// newer than PCRE2's tables. Ignores case, spaces, hyphens and underscores. Returns nullopt for unsupported names.
/// PCRE2 itself would read a script name as Script_Extensions.
std::optional<CharacterClass> property_class(std::string_view name, bool in_set);

/// Oniguruma's \w. It includes some Latin-1 numbers, but not inside a set.
std::string word_members(bool in_set);

std::string decimal_members();  // \d

/// Returns a code point in PCRE2 syntax: \x{1F600}.
std::string hex_escape(char32_t code_point);

}  // namespace keel::text
