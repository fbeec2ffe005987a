#include "libs/hftext/regex/regex_properties.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <utility>

#include "libs/hftext/characters/unicode_differences.h"

namespace keel::text {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

constexpr std::array<Names, 39> kCategories = {{{"C", "other"},
                                                {"Cc", "control"},
                                                {"Cc", "cntrl"},
                                                {"Cf", "format"},
                                                {"Cn", "unassigned"},
                                                {"Co", "privateuse"},
                                                {"Cs", "surrogate"},
                                                {"L", "letter"},
                                                {"Ll", "lowercaseletter"},
                                                {"Lm", "modifierletter"},
                                                {"Lo", "otherletter"},
                                                {"Lt", "titlecaseletter"},
                                                {"Lu", "uppercaseletter"},
                                                {"M", "mark"},
                                                {"M", "combiningmark"},
                                                {"Mc", "spacingmark"},
                                                {"Me", "enclosingmark"},
                                                {"Mn", "nonspacingmark"},
                                                {"N", "number"},
                                                {"Nd", "decimalnumber"},
                                                {"Nd", "digit"},
                                                {"Nl", "letternumber"},
                                                {"No", "othernumber"},
                                                {"P", "punctuation"},
                                                {"P", "punct"},
                                                {"Pc", "connectorpunctuation"},
                                                {"Pd", "dashpunctuation"},
                                                {"Pe", "closepunctuation"},
                                                {"Pf", "finalpunctuation"},
                                                {"Pi", "initialpunctuation"},
                                                {"Po", "otherpunctuation"},
                                                {"Ps", "openpunctuation"},
                                                {"S", "symbol"},
                                                {"Sc", "currencysymbol"},
                                                {"Sk", "modifiersymbol"},
                                                {"Sm", "mathsymbol"},
                                                {"So", "othersymbol"},
                                                {"Z", "separator"},
                                                {"Zs", "spaceseparator"}}};

/// Properties with the same members in both engines, as members of a PCRE2 set.
constexpr std::array<Names, 13> kProperties = {{{"any", "\\x{0}-\\x{10FFFF}"},
                                                {"ascii", "\\x{0}-\\x{7F}"},
                                                {"xdigit", "0-9A-Fa-f"},
                                                {"asciihexdigit", "0-9A-Fa-f"},
                                                {"space", "\\p{White_Space}"},
                                                {"whitespace", "\\p{White_Space}"},
                                                {"zl", "\\p{Zl}"},
                                                {"lineseparator", "\\p{Zl}"},
                                                {"zp", "\\p{Zp}"},
                                                {"paragraphseparator", "\\p{Zp}"},
                                                {"extendedpictographic", "\\p{Extended_Pictographic}"},
                                                {"emojimodifier", "\\p{Emoji_Modifier}"},
                                                {"regionalindicator", "\\p{Regional_Indicator}"}}};

std::string range_members(std::span<const CodeRange> ranges) {
  std::string members;
  for (const CodeRange& range : ranges) {
    members += hex_escape(range.first) + (range.last > range.first ? "-" + hex_escape(range.last) : "");
  }
  return members;
}

/// New code points of the categories with this prefix; of all categories if it is empty.
std::string new_members(std::string_view category) {
  std::string members;
  for (const NewCategory& added : new_categories()) {
    if (added.name.starts_with(category)) members += range_members(added.ranges);
  }
  return members;
}

std::string category_members(std::string_view category) {
  return "\\p{" + std::string(category) + "}" + new_members(category);
}

CharacterClass category_class(std::string_view category) {
  // New code points are assigned, so PCRE2's Cn has too many members and its complement too few.
  if (category == "Cn") return {"\\P{Cn}" + new_members(""), true};
  if (category == "C")
    return {"\\P{C}" + new_members("L") + new_members("M") + new_members("N") + new_members("P") + new_members("S"),
            true};
  return {category_members(category), false, category == "Ll" || category == "Lt" || category == "Lu"};
}

CharacterClass new_property_class(const NewProperty& property) {
  const std::string name(property.name), added = range_members(property.ranges);
  if (property.kind == PropertyKind::kNewScript) return {added};
  if (property.kind == PropertyKind::kScript) return {"\\p{sc:" + name + "}" + added};
  const std::string known = "\\p{" + name + "}" + added;
  if (name == "alphabetic") return {known + new_members("L")};
  if (name == "lowercase") return {known + new_members("Ll"), false, true};
  return {known};
}

/// Normalizes a name for loose matching.
std::string loose(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    result += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  return result;
}

}  // namespace

std::string hex_escape(char32_t code_point) {
  char buffer[16];
  std::snprintf(buffer, sizeof(buffer), "\\x{%X}", static_cast<unsigned>(code_point));
  return buffer;
}

std::string word_members(bool in_set) {
  return "\\p{Alphabetic}" + category_members("M") + decimal_members() + "\\p{Pc}" + new_members("L") +
         (in_set ? "" : "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}");
}

std::string decimal_members() { return category_members("Nd"); }

std::optional<CharacterClass> property_class(std::string_view name, bool in_set) {
  const std::string key = loose(name);
  for (const auto& [category, long_name] : kCategories) {
    if (key == long_name || key == loose(category)) return category_class(category);
  }
  for (const auto& [property, members] : kProperties) {
    if (key == property) return CharacterClass{std::string(members)};
  }
  for (const NewProperty& property : new_properties()) {
    if (key == property.name || key == property.alias) return new_property_class(property);
  }
  if (key == "word") return CharacterClass{word_members(in_set)};
  if (key == "assigned") return CharacterClass{"\\P{Cn}" + new_members("")};
  if (key == "unknown" || key == "zzzz") return std::nullopt;
  if (key == "alnum") return CharacterClass{property_class("alphabetic", in_set)->members + decimal_members()};
  if (key == "upper" || key == "uppercase") return CharacterClass{"\\p{Uppercase}" + new_members("Lu"), false, true};
  if (key == "lc" || key == "casedletter") {
    return CharacterClass{category_members("Lu") + category_members("Ll") + "\\p{Lt}", false, true};
  }
  // Anything else may be a script; PCRE2 checks the name.
  const bool letters = std::all_of(key.begin(), key.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  if (!letters || key.size() < 2) return std::nullopt;
  return CharacterClass{"\\p{sc:" + std::string(name) + "}"};
}

}  // namespace keel::text
