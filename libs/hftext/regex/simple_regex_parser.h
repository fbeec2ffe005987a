#pragma once

#include <optional>
#include <string_view>

#include "libs/hftext/regex/simple_regex.h"

namespace keel::text {

/// Reads what SimpleRegex knows of Oniguruma's dialect; answers no at the first thing it does not know.
class SimpleRegexParser {
 public:
  explicit SimpleRegexParser(std::string_view pattern) : pattern_(pattern) {}
  std::optional<SimpleRegex> parse();

 private:
  using Item = SimpleRegex::Item;

  char peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool take(std::string_view text);
  bool alternative(SimpleRegex::Alternative& items);
  bool item(Item& item);
  bool words(Item& item, bool caseless);
  bool repeat(Item& item);
  bool number(uint32_t& value);
  /// A set, an escape or one character, as a set.
  bool set(CharacterSet& set, bool caseless);
  bool bracket(CharacterSet& set);
  bool class_escape(CharacterSet& set);
  bool character(char32_t& c);
  uint32_t keep(CharacterSet set);

  std::string_view pattern_;
  size_t at_ = 0;
  SimpleRegex regex_;
};

}  // namespace keel::text
