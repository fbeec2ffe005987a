#include "libs/hftext/regex/simple_regex.h"

#include <algorithm>

#include "libs/hftext/characters/unicode.h"
#include "libs/hftext/characters/utf8.h"

namespace keel::text {

bool CharacterSet::contains_non_ascii(char32_t c) const {
  bool found = categories != 0 && (category_bit(c) & categories) != 0;
  const auto next = std::ranges::upper_bound(ranges, c, {}, &CodeRange::first);
  found = found || (next != ranges.begin() && c <= std::prev(next)->last);
  return found != negated;
}

/// A backtracking match at one position. Items are greedy and give back one character at a time until the rest matches.
struct SimpleRegex::Search {
  const SimpleRegex& regex;
  std::string_view text;
  size_t& steps_left;

  /// The size of the character at `at` if it is in the set, else 0.
  size_t size_if(uint32_t set, size_t at) const {
    if (at >= text.size()) return 0;
    const auto byte = static_cast<unsigned char>(text[at]);
    const CharacterSet& members = regex.sets_[set];
    if (byte < 128) return members.ascii[byte] ? 1 : 0;
    const CodePoint c = code_point_at(text, at);
    return members.contains_non_ascii(c.value) ? c.size : 0;
  }

  size_t match_items(const Item* item, const Item* end, size_t at) {
    if (item == end) return at;
    if (steps_left == 0) return kBudgetExceeded;
    --steps_left;
    switch (item->kind) {
      case Item::Kind::kNegativeLookahead:
        return size_if(item->set, at) > 0 ? kNoMatch : match_items(item + 1, end, at);
      case Item::Kind::kLiterals:
        return literals(item, end, at);
      default:
        return repeat(item, end, at);
    }
  }

  size_t literals(const Item* item, const Item* end, size_t at) {
    for (const std::vector<uint32_t>& word : item->literals) {
      size_t after = at;
      bool fits = true;
      for (size_t i = 0; i < word.size() && fits; ++i) {
        const size_t size = size_if(word[i], after);
        fits = size > 0;
        after += size;
      }
      const size_t result = fits ? match_items(item + 1, end, after) : kNoMatch;
      if (result != kNoMatch) return result;
    }
    return item->low == 0 ? match_items(item + 1, end, at) : kNoMatch;
  }

  size_t repeat(const Item* item, const Item* end, size_t at) {
    uint32_t count = 0;
    for (size_t size; count < item->high && (size = size_if(item->set, at)) > 0; ++count) at += size;
    steps_left -= std::min<size_t>(steps_left, count);
    if (count < item->low) return kNoMatch;
    while (true) {
      const size_t result = match_items(item + 1, end, at);
      if (result != kNoMatch || count == item->low) return result;
      at -= code_point_before(text, at).size;
      --count;
    }
  }
};

size_t SimpleRegex::match_at(std::string_view text, size_t at, size_t& steps_left) const {
  const auto byte = static_cast<unsigned char>(text[at]);
  Search search{*this, text, steps_left};
  uint32_t candidates = byte < 128 ? alternatives_by_first_[byte] : UINT32_MAX;
  for (const Alternative& items : alternatives_) {
    if ((candidates & 1) != 0) {
      const size_t end = search.match_items(items.data(), items.data() + items.size(), at);
      if (end != kNoMatch) return end;
    }
    candidates >>= 1;
  }
  return kNoMatch;
}

}  // namespace keel::text
