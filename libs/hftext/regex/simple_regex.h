#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libs/hftext/characters/unicode_differences.h"

namespace keel::text {

/// A set of characters: bits for ASCII, categories and ranges for the rest.
struct CharacterSet {
  std::array<bool, 128> ascii = {};
  uint32_t categories = 0;  // bits of category_bit()
  std::vector<CodeRange> ranges;  // apart and in their order, once the pattern is read
  bool negated = false;

  bool contains_wide(char32_t c) const;  // beyond ASCII
};

/// Regular expressions as tokenizers write them, alternatives of repeated sets such as "\p{N}{1,3}| ?\p{L}+|\s+(?!\S)",
/// matched ten times faster than by PCRE2 and with the same result (tests/regex/simple_regex_test.cpp compares them).
class SimpleRegex {
 public:
  /// Nothing when the pattern has more than this knows, or can match an empty text; PCRE2 then has to do it.
  static std::optional<SimpleRegex> compile(std::string_view pattern);

  static constexpr size_t kNoMatch = SIZE_MAX, kGaveUp = SIZE_MAX - 1;
  /// Where the match that starts at byte `at` of valid UTF-8 ends. Gives up when there are no more steps left.
  size_t match_at(std::string_view text, size_t at, size_t& left) const;

 private:
  friend class SimpleRegexParser;
  struct Item {
    enum class Kind : uint8_t { kRepeat, kNotAhead, kWords } kind = Kind::kRepeat;
    uint32_t set = 0;                          // of kRepeat and kNotAhead
    uint32_t low = 1, high = 1;                // how often; of kWords, too, which is there once at most
    std::vector<std::vector<uint32_t>> words;  // of kWords: sets in a row, the first that fits
  };
  struct Search;
  using Alternative = std::vector<Item>;

  std::vector<CharacterSet> sets_;
  std::vector<Alternative> alternatives_;
  std::array<uint32_t, 128> starts_ = {};  // bit i: alternative i can begin with this character
};

}  // namespace keel::text
