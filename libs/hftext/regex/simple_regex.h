#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libs/hftext/characters/unicode_differences.h"

namespace keel::text {

/// A set of characters: flags for ASCII, categories and ranges for the rest.
struct CharacterSet {
  std::array<bool, 128> ascii = {};
  uint32_t categories = 0;        // bits of category_bit()
  std::vector<CodeRange> ranges;  // sorted and disjoint after parsing
  bool negated = false;

  bool contains_non_ascii(char32_t c) const;  // `c` is not ASCII
};

/// Matcher for typical tokenizer patterns: alternatives of repeated sets such as "\p{N}{1,3}| ?\p{L}+|\s+(?!\S)". Ten
/// times faster than PCRE2 with the same result (tests/regex/simple_regex_test.cpp compares them).
class SimpleRegex {
 public:
  /// Returns nullopt if the pattern has unsupported syntax or can match an empty text; the caller then uses PCRE2.
  static std::optional<SimpleRegex> compile(std::string_view pattern);

  static constexpr size_t kNoMatch = SIZE_MAX, kBudgetExceeded = SIZE_MAX - 1;
  /// The end of the match at byte `at` of valid UTF-8; kBudgetExceeded if `steps_left` reaches 0.
  size_t match_at(std::string_view text, size_t at, size_t& steps_left) const;

 private:
  friend class SimpleRegexParser;
  struct Item {
    enum class Kind : uint8_t { kRepeat, kNegativeLookahead, kLiterals } kind = Kind::kRepeat;
    uint32_t set = 0;                             // for kRepeat and kNegativeLookahead
    uint32_t low = 1, high = 1;                   // repeat counts; kLiterals has at most 1
    std::vector<std::vector<uint32_t>> literals;  // for kLiterals: sequences of sets, the first match wins
  };
  struct Search;
  using Alternative = std::vector<Item>;

  std::vector<CharacterSet> sets_;
  std::vector<Alternative> alternatives_;
  std::array<uint32_t, 128> alternatives_by_first_ = {};  // bit i: alternative i can begin with this character
};

}  // namespace keel::text
