#pragma once

#include <optional>
#include <string_view>

#include "libs/hftext/regex/simple_regex.h"

namespace keel::text {

/// Parses the subset of Oniguruma's dialect that SimpleRegex supports. Functions return false for unsupported syntax.
class SimpleRegexParser {
 public:
  explicit SimpleRegexParser(std::string_view pattern) : pattern_(pattern) {}
  std::optional<SimpleRegex> parse();

 private:
  using Item = SimpleRegex::Item;

  char peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool take(std::string_view text);
  bool at_quantifier() const { return std::string_view("*+?{").find(peek()) != std::string_view::npos; }
  bool at_class_escape() const;
  bool alternative(SimpleRegex::Alternative& items);
  bool item(Item& item);
  bool literals(Item& item, bool caseless);
  bool repeat(Item& item);
  bool number(uint32_t& value);
  bool set(CharacterSet& set, bool caseless);
  bool bracket(CharacterSet& set);
  bool class_escape(CharacterSet& set);
  bool character(char32_t& c);
  uint32_t add_set(CharacterSet set);

  std::string_view pattern_;
  size_t at_ = 0;
  SimpleRegex regex_;
};

}  // namespace keel::text
