#include "libs/hftext/regex/regex_dialect.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "keel/core/error.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/regex/regex_properties.h"

namespace keel::text {
namespace {

constexpr size_t kMaxPattern = 16384;  // bytes
constexpr int kMaxDepth = 50;          // nested groups
constexpr int kMaxRepeat = 1000;
constexpr size_t kMaxName = 60;  // of a property

// White_Space and its complement; PCRE2's \s would also match U+180E.
constexpr std::string_view kSpace =
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";
constexpr std::string_view kNotSpace =
    "\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}"
    "\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{10FFFF}";

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& location) : pattern_(pattern), location_(location) {}

  std::string translate() {
    if (pattern_.size() > kMaxPattern) reject("is " + std::to_string(pattern_.size()) + " bytes long");
    std::string result = alternatives(0);
    if (at_ < pattern_.size()) reject("has a ) without a (");
    return result;
  }

 private:
  [[noreturn]] void reject(const std::string& why) const {
    const std::string_view preview = pattern_.substr(0, 200);
    fail(ExitCode::kBadInput, location_, ": the regular expression \"", preview, pattern_.size() > 200 ? "..." : "",
         "\" ", why,
         "; only groups, sets, properties, look-around and repeats are supported: use a model whose tokenizer has no "
         "other");
  }
  [[noreturn]] void reject_part(size_t from) const {
    reject("has \"" + std::string(pattern_.substr(from, at_ - from)) + "\" at byte " + std::to_string(from));
  }

  bool done() const { return at_ >= pattern_.size(); }
  char peek() const { return done() ? '\0' : pattern_[at_]; }
  bool take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_character() {
    const CodePoint c = code_point_at(pattern_, at_);
    at_ += c.size;
    return c.value;
  }

  std::string alternatives(int depth) {
    if (depth > kMaxDepth) reject("has more than " + std::to_string(kMaxDepth) + " nested groups");
    std::string result;
    while (!done() && peek() != ')') {
      if (take("|")) {
        result += '|';
        continue;
      }
      result += repeat_item(depth);
    }
    return result;
  }

  std::string repeat_item(int depth) {
    bool repeatable = true;
    std::string item = atom(depth, repeatable);
    for (int count = 0;; ++count) {
      const size_t from = at_;
      std::string repeat = quantifier();
      if (repeat.empty()) return item;
      if (!repeatable || count > 1) reject_part(from);
      // Wraps the item if a second repeat follows: in PCRE2, a + after {1,3} would make it possessive.
      item = count == 0 ? item + repeat : "(?:" + item + ")" + repeat;
    }
  }

  std::string quantifier() {
    const char c = peek();
    std::string repeat;
    bool interval = false, exact = false;
    if (c == '*' || c == '+' || c == '?') {
      ++at_;
      repeat = c;
    } else if (c == '{') {
      repeat = bounds(exact);
      interval = !repeat.empty();
    }
    if (repeat.empty()) return "";
    // Ruby: {n,m}? is lazy, but {n}? is an optional {n}, and {n,m}+ repeats it; those two are the next quantifier.
    const bool has_suffix = (peek() == '?' && !exact) || (peek() == '+' && !interval);
    if (has_suffix) repeat += pattern_[at_++];
    return repeat;
  }

  /// Parses {n}, {n,}, {n,m} or {,m}; empty if the brace is a literal.
  std::string bounds(bool& exact) {
    const size_t from = at_;
    ++at_;
    const std::optional<int> low = number();
    const bool comma = take(",");
    const std::optional<int> high = comma ? number() : low;
    if (!take("}") || (!low && !high)) {
      at_ = from;
      return "";
    }
    if (low.value_or(0) > kMaxRepeat || high.value_or(0) > kMaxRepeat || (high && *high < low.value_or(0))) {
      reject_part(from);
    }
    exact = !comma;
    std::string repeat = "{" + std::to_string(low.value_or(0));
    if (comma) repeat += "," + (high ? std::to_string(*high) : "");
    return repeat + "}";
  }

  std::optional<int> number() {
    std::optional<int> value;
    while (peek() >= '0' && peek() <= '9' && value.value_or(0) <= kMaxRepeat) {
      value = value.value_or(0) * 10 + (pattern_[at_++] - '0');
    }
    return value;
  }

  std::string atom(int depth, bool& repeatable) {
    const size_t from = at_;
    const char c = peek();
    if (c == '(') return group(depth, repeatable);
    if (c == '[') {
      ++at_;
      return set();
    }
    if (c == '\\') return escape(repeatable);
    if (c == '.' || c == '^' || c == '$') {
      ++at_;
      repeatable = c == '.';
      return std::string(1, c);
    }
    if (c == '*' || c == '+' || c == '?') {
      ++at_;
      reject_part(from);
    }
    const char32_t literal = take_character();
    check_case(literal, from);
    return hex_escape(literal);
  }

  /// Ignoring case, Oniguruma matches "ss" with a sharp s; PCRE2 compares single characters. Rejects such literals.
  void check_case(char32_t literal, size_t from) {
    const auto lower = [](char32_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; };
    const bool pair = previous_end_ == from &&
                      ((previous_ == 's' && (lower(literal) == 's' || lower(literal) == 't')) ||
                       (previous_ == 'f' && (lower(literal) == 'f' || lower(literal) == 'i' || lower(literal) == 'l')));
    previous_ = lower(literal);
    previous_end_ = at_;
    if (caseless_ && (pair || literal >= 0x80)) reject_part(from);
  }

  std::string group(int depth, bool& repeatable) {
    struct Opening {
      std::string_view ruby, pcre2;
      bool repeatable;
    };
    static constexpr std::array<Opening, 9> kOpenings = {
        {{"(?:", "(?:", true},
         {"(?=", "(?=", false},
         {"(?!", "(?!", false},
         {"(?<=", "(?<=", false},
         {"(?<!", "(?<!", false},
         {"(?>", "(?>", true},
         {"(?i", "(?i:", true},
         {"(?-i", "(?-i:", true},
         {"(?m", "(?s:", true}}};  // Ruby's m: the dot is any character
    const size_t from = at_;
    for (const Opening& opening : kOpenings) {
      if (!take(opening.ruby)) continue;
      const bool option = opening.ruby.back() == 'i' || opening.ruby.back() == 'm';
      const bool outer = std::exchange(caseless_, opening.ruby == "(?i" || (caseless_ && opening.ruby != "(?-i"));
      std::string result(opening.pcre2);
      if (option && take(")")) {
        // Ruby: an option alone groups everything up to the end of the enclosing group.
        repeatable = false;
        result += alternatives(depth + 1) + ")";
      } else {
        if (option && !take(":")) {
          at_ = std::min(at_ + 1, pattern_.size());
          reject_part(from);
        }
        repeatable = opening.repeatable;
        result = close(std::move(result), depth);
      }
      caseless_ = outer;
      return result;
    }
    ++at_;
    if (peek() == '?' || peek() == '*') {
      at_ = std::min(at_ + 3, pattern_.size());
      reject_part(from);
    }
    return close("(?:", depth);  // back references are not supported, so no group captures
  }

  std::string close(std::string opened, int depth) {
    opened += alternatives(depth + 1);
    if (!take(")")) reject("has a ( without a )");
    return opened + ")";
  }

  std::string escape(bool& repeatable) {
    const size_t from = at_;
    ++at_;
    if (done()) reject("ends with a backslash");
    switch (peek()) {
      case 'A':
      case 'z':
      case 'Z':
        repeatable = false;
        return std::string("\\") + pattern_[at_++];
      case 's':
      case 'S':
      case 'w':
      case 'W':
      case 'd':
      case 'D':
      case 'p':
      case 'P':
        at_ = from;
        return as_bracket(class_escape(/*in_set=*/false));
      default:
        at_ = from;
        return hex_escape(escaped_character());
    }
  }

  static std::string as_bracket(const CharacterClass& members, bool negated = false) {
    return (members.negated != negated ? "[^" : "[") + members.members + "]";
  }

  /// Parses \s, \w, \d, \p and their complements.
  CharacterClass class_escape(bool in_set) {
    const size_t from = at_++;
    const char kind = pattern_[at_++];
    if (kind == 's' || kind == 'S') return {std::string(kind == 's' ? kSpace : kNotSpace)};
    if (kind == 'w' || kind == 'W') return {word_members(in_set), kind == 'W'};
    if (kind == 'd' || kind == 'D') return {decimal_members(), kind == 'D'};
    bool negated = kind == 'P';
    const std::string name = property_name(negated, from);
    return known_class(name, negated, in_set, from);
  }

  CharacterClass known_class(std::string_view name, bool negated, bool in_set, size_t from) {
    std::optional<CharacterClass> found = property_class(name, in_set);
    if (!found) reject_part(from);
    if (caseless_ && found->depends_on_case) reject_part(from);  // PCRE2 would match any cased letter
    found->negated = found->negated != negated;
    return *std::move(found);
  }

  std::string property_name(bool& negated, size_t from) {
    if (!take("{")) reject_part(from);
    if (take("^")) negated = !negated;
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos || end - at_ > kMaxName) reject_part(from);
    const std::string name(pattern_.substr(at_, end - at_));
    at_ = end + 1;
    return name;
  }

  /// Parses an escaped character.
  char32_t escaped_character() {
    const size_t from = at_++;
    const char32_t c = take_character();
    static constexpr std::array<std::pair<char, char>, 7> kControls = {
        {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'}, {'v', '\v'}, {'a', '\a'}, {'e', '\x1B'}}};
    for (const auto& [letter, control] : kControls) {
      if (c == static_cast<char32_t>(letter)) return static_cast<char32_t>(control);
    }
    if (c == 'u') return hex_digits(4, from);
    if (c == 'x') {
      if (take("{")) {
        const char32_t value = hex_digits(0, from);
        if (!take("}")) reject_part(from);
        return value;
      }
      const char32_t byte = hex_digits(2, from);
      if (byte >= 0x80) reject_part(from);  // a byte in Oniguruma, a character in PCRE2
      return byte;
    }
    const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (alphanumeric || c >= 0x80) reject_part(from);
    return c;
  }

  /// Reads exactly `count` digits, or all if it is 0.
  char32_t hex_digits(int count, size_t from) {
    char32_t value = 0;
    int read = 0;
    for (; (count == 0 || read < count) && read < 8; ++read) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    if (read == 0 || (count > 0 && read != count) || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      reject_part(from);
    }
    return value;
  }

  /// Content of a bracket set: members, and negated classes.
  struct Set {
    std::string members;
    std::vector<CharacterClass> negated_classes;
  };

  void add(Set& set, CharacterClass added) {
    if (added.negated)
      set.negated_classes.push_back(std::move(added));
    else
      set.members += added.members;
  }

  /// Parses a set after its [. PCRE2 cannot nest a negated class of members in a set, so these become alternatives.
  std::string set() {
    const bool negated = take("^");
    Set all;
    members(all, 0);
    if (all.members.empty() && all.negated_classes.empty()) reject("has an empty set");
    if (all.negated_classes.empty()) return as_bracket({all.members, negated});
    std::string result;
    for (const CharacterClass& negated_class : all.negated_classes) {
      result += negated ? "(?=" + as_bracket(negated_class, true) + ")" : "|" + as_bracket(negated_class);
    }
    if (negated) return "(?:" + result + (all.members.empty() ? "(?s:.)" : as_bracket({all.members, true})) + ")";
    if (!all.members.empty()) result += "|" + as_bracket({all.members});
    return "(?:" + result.substr(1) + ")";
  }

  /// Parses up to and including the closing bracket. A nested set is a union, so its members join the outer set.
  void members(Set& result, int depth) {
    while (true) {
      const size_t from = at_;
      if (done()) reject("has a [ without a ]");
      if (take("]")) return;
      if (take("&&") || depth > kMaxDepth) reject_part(from);
      if (take("[:")) {
        add(result, posix_class(from));
        continue;
      }
      if (take("[")) {
        const bool negated = take("^");
        Set inner;
        members(inner, depth + 1);
        if (!negated) {
          for (CharacterClass& negated_class : inner.negated_classes)
            result.negated_classes.push_back(std::move(negated_class));
        } else if (!inner.negated_classes.empty() || inner.members.empty()) {
          reject_part(from);
        }
        add(result, {std::move(inner.members), negated});
        continue;
      }
      if (is_class_escape()) {
        add(result, class_escape(/*in_set=*/true));
        continue;
      }
      const char32_t first = set_character();
      if (peek() != '-' || pattern_.substr(at_).starts_with("-]")) {
        result.members += hex_escape(first);
        continue;
      }
      ++at_;
      if (peek() == '[' || is_class_escape()) reject_part(from);
      if (done()) reject("has a [ without a ]");
      const char32_t last = set_character();
      if (last < first) reject_part(from);
      result.members += hex_escape(first) + "-" + hex_escape(last);
    }
  }

  /// Parses [:name:] or [:^name:] after its first two characters.
  CharacterClass posix_class(size_t from) {
    static constexpr std::array<std::string_view, 8> kNames = {"alnum", "alpha", "cntrl", "digit",
                                                               "lower", "space", "upper", "word"};
    const bool negated = take("^");
    for (const std::string_view name : kNames)
      if (take(std::string(name) + ":]")) return known_class(name, negated, /*in_set=*/true, from);
    if (!take("punct:]")) reject_part(from);
    return {property_class("P", true)->members + property_class("S", true)->members, negated};
  }

  bool is_class_escape() const {
    return peek() == '\\' && at_ + 1 < pattern_.size() &&
           std::string_view("sSwWdDpP").find(pattern_[at_ + 1]) != std::string_view::npos;
  }

  char32_t set_character() {
    if (peek() != '\\') return take_character();
    if (at_ + 1 == pattern_.size()) reject("ends with a backslash");
    return escaped_character();
  }

  std::string_view pattern_;
  const std::string& location_;
  size_t at_ = 0;
  bool caseless_ = false;
  char32_t previous_ = 0;    // the last literal, in lower case
  size_t previous_end_ = 0;  // its end
};

}  // namespace

std::string to_pcre2(std::string_view pattern, const std::string& location) {
  return Translator(pattern, location).translate();
}

std::string rust_word_set(bool negated) {
  return (negated ? "[^" : "[") + word_members(true) + "\\x{200C}\\x{200D}" + (negated ? std::string(kSpace) : "") +
         "]";
}

}  // namespace keel::text
