#include "libs/hftext/regex/simple_regex_parser.h"

#include <algorithm>

#include "libs/hftext/characters/unicode.h"
#include "libs/hftext/characters/utf8.h"

namespace keel::text {
namespace {

constexpr size_t kMaxAlternatives = 32, kMaxItems = 32, kMaxWords = 32;
constexpr uint32_t kUnbounded = UINT32_MAX;

void add_range(CharacterSet& set, char32_t first, char32_t last) {
  for (char32_t c = first; c <= last && c < 128; ++c) set.ascii[c] = true;
  if (last >= 128) set.ranges.push_back({std::max<char32_t>(first, 128), last});
}

void add_categories(CharacterSet& set, uint32_t bits) {
  set.categories |= bits;
  for (char32_t c = 0; c < 128; ++c) set.ascii[c] = set.ascii[c] || (category_bit(c) & bits) != 0;
}

/// Ranges of white space, computed once.
const std::vector<CodeRange>& white_space() {
  static const std::vector<CodeRange> runs = [] {
    std::vector<CodeRange> found;
    for (char32_t c = 0; c <= 0x3000; ++c) {  // the last white space character
      if (!is_white_space(c)) continue;
      if (found.empty() || found.back().last + 1 != c) found.push_back({c, c});
      found.back().last = c;
    }
    return found;
  }();
  return runs;
}

void add_spaces(CharacterSet& set, bool opposite) {
  char32_t previous_end = 0;
  for (const CodeRange& run : white_space()) {
    if (!opposite) add_range(set, run.first, run.last);
    if (opposite && previous_end < run.first) add_range(set, previous_end, run.first - 1);
    previous_end = run.last + 1;
  }
  if (opposite) add_range(set, previous_end, 0x10FFFF);
}

/// Adds a character and, if caseless, the characters that fold to it.
void add_character(CharacterSet& set, char32_t c, bool caseless) {
  add_range(set, c, c);
  if (!caseless) return;
  const char32_t lower = c | 0x20;
  if (lower < 'a' || lower > 'z') return;
  add_range(set, lower, lower);
  add_range(set, lower - 0x20, lower - 0x20);
  if (lower == 's') add_range(set, 0x17F, 0x17F);    // long s
  if (lower == 'k') add_range(set, 0x212A, 0x212A);  // Kelvin
}

/// Sorts for binary search and merges overlapping ranges.
void sort_and_merge(std::vector<CodeRange>& ranges) {
  std::ranges::sort(ranges, {}, &CodeRange::first);
  std::vector<CodeRange> merged;
  for (const CodeRange& range : ranges)
    if (!merged.empty() && range.first <= merged.back().last)
      merged.back().last = std::max(merged.back().last, range.last);
    else
      merged.push_back(range);
  ranges = std::move(merged);
}

}  // namespace

bool SimpleRegexParser::take(std::string_view text) {
  if (!pattern_.substr(at_).starts_with(text)) return false;
  at_ += text.size();
  return true;
}

/// True at an escape that is not a single character: \s, \p, \b and others.
bool SimpleRegexParser::at_class_escape() const {
  return peek() == '\\' && std::string_view("sSpPdDwWhHRXbB").find(peek(1)) != std::string_view::npos;
}

std::optional<SimpleRegex> SimpleRegexParser::parse() {
  if (!has_unicode_tables()) return std::nullopt;
  do {
    SimpleRegex::Alternative items;
    if (!alternative(items) || regex_.alternatives_.size() == kMaxAlternatives) return std::nullopt;
    // Characters that can begin the alternative: the sets up to the first required item.
    const uint32_t bit = uint32_t{1} << regex_.alternatives_.size();
    bool is_required = false;
    for (const Item& item : items) {
      if (is_required) break;
      if (item.kind == Item::Kind::kNegativeLookahead) return std::nullopt;  // supported only after another item
      std::vector<uint32_t> first_sets = {item.set};
      if (item.kind == Item::Kind::kLiterals) {
        first_sets.clear();
        for (const auto& word : item.literals) first_sets.push_back(word.front());
      }
      for (const uint32_t index : first_sets) {
        for (size_t c = 0; c < 128; ++c) regex_.alternatives_by_first_[c] |= regex_.sets_[index].ascii[c] ? bit : 0;
      }
      is_required = item.low > 0;
    }
    if (!is_required) return std::nullopt;  // could match an empty text
    regex_.alternatives_.push_back(std::move(items));
  } while (take("|"));
  if (at_ != pattern_.size()) return std::nullopt;
  for (CharacterSet& set : regex_.sets_) sort_and_merge(set.ranges);
  return std::move(regex_);
}

bool SimpleRegexParser::alternative(SimpleRegex::Alternative& items) {
  while (at_ < pattern_.size() && peek() != '|') {
    if (items.size() == kMaxItems) return false;
    if (!item(items.emplace_back())) return false;
  }
  return !items.empty();
}

bool SimpleRegexParser::item(Item& item) {
  CharacterSet members;
  if (take("(?!")) {
    item.kind = Item::Kind::kNegativeLookahead;
    if (!set(members, false) || !take(")")) return false;
    item.set = add_set(std::move(members));
    return !at_quantifier();
  }
  const bool caseless = pattern_.substr(at_).starts_with("(?i:");
  if (caseless || pattern_.substr(at_).starts_with("(?:")) {
    at_ += caseless ? 4 : 3;
    return literals(item, caseless);
  }
  if (!set(members, false)) return false;
  item.set = add_set(std::move(members));
  return repeat(item);
}

/// Parses what follows "(?i:" or "(?:": plain alternatives such as 's|'t|'re, then an optional question mark.
bool SimpleRegexParser::literals(Item& item, bool caseless) {
  item.kind = Item::Kind::kLiterals;
  do {
    std::vector<uint32_t>& word = item.literals.emplace_back();
    while (at_ < pattern_.size() && peek() != '|' && peek() != ')') {
      CharacterSet members;
      if (word.size() == kMaxWords || item.literals.size() > kMaxWords || !set(members, caseless)) return false;
      if (at_quantifier()) return false;
      word.push_back(add_set(std::move(members)));
    }
    if (word.empty()) return false;
    // regex_dialect.cpp rejects these with an Error.
    if (caseless && word.size() > 1 &&
        (pattern_.substr(0, at_).ends_with("ss") || pattern_.substr(0, at_).ends_with("st")))
      return false;
  } while (take("|"));
  if (!take(")")) return false;
  if (take("?")) item.low = 0;
  return !at_quantifier();
}

bool SimpleRegexParser::repeat(Item& item) {
  if (take("*")) {
    item.low = 0;
    item.high = kUnbounded;
  } else if (take("+")) {
    item.high = kUnbounded;
  } else if (take("?")) {
    item.low = 0;
  } else if (take("{")) {
    if (!number(item.low)) return false;
    item.high = item.low;
    if (take(",") && !number(item.high)) item.high = kUnbounded;
    if (!take("}") || item.high < item.low || item.high == 0) return false;
  }
  // Lazy, possessive and nested repeats are left to PCRE2.
  return !at_quantifier();
}

bool SimpleRegexParser::number(uint32_t& value) {
  const size_t from = at_;
  value = 0;
  while (peek() >= '0' && peek() <= '9' && value <= 1000)
    value = value * 10 + static_cast<uint32_t>(pattern_[at_++] - '0');
  return at_ > from && value <= 1000;
}

bool SimpleRegexParser::set(CharacterSet& members, bool caseless) {
  if (take("[")) return !caseless && bracket(members);
  if (peek() == '\\' && std::string_view("sSpd").find(peek(1)) != std::string_view::npos) {
    return !caseless && class_escape(members);
  }
  char32_t c = 0;
  if (std::string_view("()*+?{}.^$|]").find(peek()) != std::string_view::npos || !character(c)) return false;
  if (caseless && c >= 128) return false;
  add_character(members, c, caseless);
  return true;
}

bool SimpleRegexParser::bracket(CharacterSet& members) {
  const bool negated = take("^");
  bool any = false;
  while (!take("]")) {
    if (at_ >= pattern_.size() || peek() == '[' || (peek() == '&' && peek(1) == '&')) return false;
    any = true;
    if (at_class_escape()) {
      if (!class_escape(members)) return false;
      if (peek() == '-' && peek(1) != ']') return false;
      continue;
    }
    char32_t first = 0, last = 0;
    if (!character(first)) return false;
    last = first;
    if (peek() == '-' && peek(1) != ']') {
      ++at_;
      if (peek() == '[' || at_class_escape() || !character(last) || last < first) return false;
    }
    add_range(members, first, last);
  }
  if (!any) return false;
  members.negated = negated;
  if (negated) {
    for (bool& bit : members.ascii) bit = !bit;
  }
  return true;
}

bool SimpleRegexParser::class_escape(CharacterSet& members) {
  ++at_;
  const char kind = pattern_[at_++];
  if (kind == 's' || kind == 'S') {
    add_spaces(members, kind == 'S');
    return true;
  }
  if (kind == 'd') {
    add_categories(members, category_bits("Nd"));
    return true;
  }
  if (kind != 'p' || !take("{")) return false;
  const size_t end = pattern_.find('}', at_);
  if (end == std::string_view::npos) return false;
  const uint32_t bits = category_bits(pattern_.substr(at_, end - at_));
  at_ = end + 1;
  add_categories(members, bits);
  return bits != 0;
}

bool SimpleRegexParser::character(char32_t& c) {
  if (at_ >= pattern_.size()) return false;
  if (peek() != '\\') {
    const CodePoint point = code_point_at(pattern_, at_);
    at_ += point.size;
    c = point.value;
    return true;
  }
  const char escaped = peek(1);
  at_ += 2;
  if (at_ > pattern_.size()) return false;
  switch (escaped) {
    case 'n':
      c = '\n';
      return true;
    case 'r':
      c = '\r';
      return true;
    case 't':
      c = '\t';
      return true;
    default:
      c = static_cast<unsigned char>(escaped);
      return c < 128 && is_punctuation(c);
  }
}

uint32_t SimpleRegexParser::add_set(CharacterSet set) {
  regex_.sets_.push_back(std::move(set));
  return static_cast<uint32_t>(regex_.sets_.size() - 1);
}

std::optional<SimpleRegex> SimpleRegex::compile(std::string_view pattern) { return SimpleRegexParser(pattern).parse(); }

}  // namespace keel::text
