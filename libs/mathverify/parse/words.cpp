#include "libs/mathverify/parse/words.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "libs/mathverify/parse/characters.h"

namespace keel::math {
namespace {

struct NumberWord {
  std::string_view word;
  int64_t value;
};
constexpr NumberWord kSmallNumbers[] = {
    {"zero", 0},      {"one", 1},       {"two", 2},       {"three", 3},    {"four", 4},     {"five", 5},
    {"six", 6},       {"seven", 7},     {"eight", 8},     {"nine", 9},     {"ten", 10},     {"eleven", 11},
    {"twelve", 12},   {"thirteen", 13}, {"fourteen", 14}, {"fifteen", 15}, {"sixteen", 16}, {"seventeen", 17},
    {"eighteen", 18}, {"nineteen", 19}, {"twenty", 20},   {"thirty", 30},  {"forty", 40},   {"fifty", 50},
    {"sixty", 60},    {"seventy", 70},  {"eighty", 80},   {"ninety", 90}};
constexpr NumberWord kScales[] = {{"hundred", 100},        {"thousand", 1000},          {"million", 1000000},
                                  {"billion", 1000000000}, {"trillion", 1000000000000}, {"dozen", 12}};
// Used in "one third" and "two thirds", but not in "twenty-third".
constexpr NumberWord kFractions[] = {{"half", 2},  {"third", 3},  {"quarter", 4},     {"fourth", 4},
                                     {"fifth", 5}, {"sixth", 6},  {"seventh", 7},     {"eighth", 8},
                                     {"ninth", 9}, {"tenth", 10}, {"hundredth", 100}, {"thousandth", 1000}};

template <size_t N>
std::optional<int64_t> find(const NumberWord (&table)[N], std::string_view word) {
  for (const NumberWord& each : table)
    if (each.word == word) return each.value;
  return std::nullopt;
}

class WordReader {
 public:
  explicit WordReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) { split_texts(); }

  std::vector<Token> run() {
    std::vector<Token> result;
    while (at_ < tokens_.size()) {
      const size_t start = at_;
      if (take_sign(result)) continue;
      std::optional<Rational> value = amount();
      if (value) {
        Token number = tokens_[start];
        number.kind = Token::Kind::kNumber;
        number.value = *value;
        number.text = value->to_string();
        number.is_plain_integer = false;
        number.is_spelled = true;
        result.push_back(std::move(number));
      } else {
        at_ = start + 1;
        result.push_back(std::move(tokens_[start]));
      }
    }
    return result;
  }

 private:
  bool is_word(size_t at) const {
    return at < tokens_.size() &&
           (tokens_[at].kind == Token::Kind::kWord || tokens_[at].kind == Token::Kind::kText || text_is_a(at));
  }
  bool text_is_a(size_t at) const { return tokens_[at].kind == Token::Kind::kLetter && tokens_[at].text == "a"; }
  std::string word(size_t at) const { return is_word(at) ? lowered(tokens_[at].text) : ""; }

  void split_texts() {
    std::vector<Token> result;
    for (Token& token : tokens_) {
      const size_t end = token.text.find_first_of(" -~");
      const std::string first = lowered(token.text.substr(0, end));
      const bool begins = find(kSmallNumbers, first) || find(kScales, first) || find(kFractions, first) || first == "a";
      if (token.kind != Token::Kind::kText || end == std::string::npos || !begins) {
        result.push_back(std::move(token));
        continue;
      }
      for (size_t at = 0; at < token.text.size();) {
        const size_t stop = std::min(token.text.find_first_of(" -~", at), token.text.size());
        if (stop > at) {
          result.push_back(token);
          result.back().text = token.text.substr(at, stop - at);
        }
        at = stop + 1;
      }
    }
    tokens_ = std::move(result);
  }

  /// Takes the sign of "minus three", "negative one half" or "plus or minus 2".
  bool take_sign(std::vector<Token>& result) {
    const bool is_plus_minus = word(at_) == "plus" && word(at_ + 1) == "or" && word(at_ + 2) == "minus";
    const size_t next = at_ + (is_plus_minus ? 3 : 1);
    if (!is_plus_minus && word(at_) != "minus" && word(at_) != "negative") return false;
    const bool has_value =
        next < tokens_.size() && (tokens_[next].kind == Token::Kind::kNumber || tokens_[next].is_command("frac") ||
                                  tokens_[next].is_command("sqrt") || tokens_[next].is_command("infty") ||
                                  find(kSmallNumbers, word(next)) || word(next) == "infinity");
    if (!has_value) return false;
    Token sign = tokens_[at_];
    sign.kind = is_plus_minus ? Token::Kind::kCommand : Token::Kind::kSymbol;
    sign.text = is_plus_minus ? "pm" : "-";
    result.push_back(std::move(sign));
    at_ = next;
    return true;
  }

  /// Skips the hyphen of "twenty-one" and "two-thirds".
  size_t skip_hyphen(size_t at) const {
    const bool hyphen = at + 1 < tokens_.size() && tokens_[at].is("-") && !tokens_[at].space_before &&
                        !tokens_[at + 1].space_before && is_word(at + 1);
    return hyphen ? at + 1 : at;
  }

  /// Parses "seven", "twenty" or "twenty-one".
  std::optional<int64_t> small() {
    const std::optional<int64_t> first = find(kSmallNumbers, word(at_));
    if (!first) return std::nullopt;
    ++at_;
    const size_t next = skip_hyphen(at_);
    const std::optional<int64_t> second = find(kSmallNumbers, word(next));
    if (*first < 20 || !second || *second < 1 || *second > 9) return first;
    at_ = next + 1;
    return *first + *second;
  }

  std::optional<int64_t> scale() {
    std::string name = word(at_);
    if (name == "dozens") name.pop_back();
    const std::optional<int64_t> value = find(kScales, name);
    if (value) ++at_;
    return value;
  }

  void skip_and() { at_ += word(at_) == "and"; }

  /// Parses a number below a thousand: "three hundred and five".
  std::optional<int64_t> group() {
    const std::optional<int64_t> first = small();
    if (!first || word(at_) != "hundred") return first;
    const size_t after = ++at_;
    skip_and();
    const std::optional<int64_t> rest = small();
    if (rest && word(at_) != "hundred" && word(at_) != "dozen") return *first * 100 + *rest;
    at_ = after;  // "one hundred and two hundred" are two numbers
    return *first * 100;
  }

  /// The product of the scales that follow: thousand, million, dozen; 1 if there are none.
  Rational scales() {
    Rational product(1);
    for (int count = 0; count < 3; ++count) {
      const std::optional<int64_t> scale_value = scale();
      if (!scale_value) break;
      product = product * Rational(*scale_value);
    }
    return product;
  }

  /// Parses "2.5 million", "a dozen" or "three hundred thousand and one". Scales go down from group to group.
  std::optional<Rational> cardinal() {
    const bool is_article = word(at_) == "a" && find(kScales, word(at_ + 1));
    if (is_article || tokens_[at_].kind == Token::Kind::kNumber) {
      const Rational count = is_article ? Rational(1) : tokens_[at_].value;
      ++at_;
      const Rational scale_value = scales();
      return scale_value.is_one() ? std::nullopt : std::optional(count * scale_value);
    }
    Rational total;
    std::optional<Rational> last;  // scale
    for (bool found = false; !last || !last->is_one(); found = true) {
      const size_t before = at_;
      if (last) skip_and();
      const std::optional<int64_t> group_value = group();
      const Rational scale_value = group_value ? scales() : Rational(0);
      if (!group_value || (last && scale_value >= *last)) {
        at_ = before;
        return found ? std::optional(total) : std::nullopt;
      }
      total = total + Rational(*group_value) * scale_value;
      last = scale_value == Rational(12) ? Rational(1) : scale_value;
    }
    return total;
  }

  std::optional<int64_t> fraction_denominator(bool several) {
    const size_t at = skip_hyphen(at_);
    std::string name = word(at);
    if (several) {
      if (name == "halves") name = "halfs";
      if (!name.ends_with("s")) return std::nullopt;
      name.pop_back();
    }
    const std::optional<int64_t> value = find(kFractions, name);
    if (value) at_ = at + 1;
    return value;
  }

  /// Parses "a quarter", or "half" as the whole answer.
  std::optional<Rational> standalone_fraction() {
    const size_t start = at_;
    const bool is_article = word(at_) == "a";
    if (is_article) ++at_;
    const bool is_ordinal = !is_article && word(at_) != "half" && word(at_) != "quarter";  // "third" may be an ordinal
    const std::optional<int64_t> denominator = fraction_denominator(false);
    const bool is_all = start == 0 && at_ < tokens_.size() && tokens_[at_].kind == Token::Kind::kEnd;
    if (denominator && !is_ordinal && (is_all || is_article)) return Rational(Integer(1), Integer(*denominator));
    at_ = start;
    return std::nullopt;
  }

  std::optional<Rational> amount() {
    if (const std::optional<Rational> value = standalone_fraction()) return value;
    const size_t start = at_;
    const bool has_digits = tokens_[at_].kind == Token::Kind::kNumber;
    std::optional<Rational> value = cardinal();
    if (!value && has_digits) {  // "5 and a half"
      at_ = start + 1;
      value = tokens_[start].value;
    } else if (value && !has_digits) {
      if (const std::optional<int64_t> denominator = fraction_denominator(!value->is_one()))
        return *value / Rational(Integer(*denominator));
    }
    if (value && word(at_) == "and" && (word(at_ + 1) == "a" || word(at_ + 1) == "one")) {
      const size_t before = at_;
      at_ += 2;
      if (const std::optional<int64_t> denominator = fraction_denominator(false))
        return *value + Rational(Integer(1), Integer(*denominator));
      at_ = before;
    } else if (value && !has_digits && word(at_) == "and") {  // "two and three quarters"
      const size_t before = at_++;
      const std::optional<int64_t> numerator = small(),
                                   denominator = numerator ? fraction_denominator(true) : std::nullopt;
      if (numerator && denominator && *numerator < *denominator)
        return *value + Rational(Integer(*numerator), Integer(*denominator));
      at_ = before;
    }
    return has_digits && at_ == start + 1 ? std::nullopt : value;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Token> parse_number_words(std::vector<Token> tokens) { return WordReader(std::move(tokens)).run(); }

}  // namespace keel::math
