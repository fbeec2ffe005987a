#include "keel/reward/math_lexer.h"

#include <algorithm>
#include <array>

namespace keel::math {
namespace {

constexpr size_t kMaxTokens = 3000, kMaxDigits = 4000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

template <size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Commands that only change how things look.
constexpr std::array<std::string_view, 32> kLayout = {
    "left",   "right", "big",       "Big",       "bigg",         "Bigg",      "bigl",       "bigr",
    "Bigl",   "Bigr",  "biggl",     "biggr",     "displaystyle", "textstyle", "limits",     "nolimits",
    "quad",   "qquad", "mathstrut", "rm",        "bf",           "it",        "boldsymbol", "mathbf",
    "mathit", "bm",    "nobreak",   "thinspace", "enspace",      "middle",    "strut",      "normalsize"};
constexpr std::array<std::string_view, 12> kTextCommands = {"text",         "textbf", "textit", "textrm",
                                                            "textnormal",   "mathrm", "mbox",   "hbox",
                                                            "operatorname", "mathsf", "texttt", "emph"};
// The names of bases as they stand below a number: 1011_{two}.
constexpr std::array<std::string_view, 17> kBaseNames = {
    "",     "",    "two",    "three",  "four",     "five",     "six",     "seven",  "eight",
    "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"};

class Lexer {
 public:
  explicit Lexer(std::string_view text, int depth = 0) : text_(text), depth_(depth) {
    if (depth > 8) throw Undecided{};
  }

  std::vector<Token> run() {
    while (skip_space()) {
      if (tokens_.size() > kMaxTokens) throw Undecided{};
      const char c = peek();
      if (read_date() || read_based_number()) continue;
      if (is_digit(c) || (c == '.' && is_digit(peek(1))))
        read_number();
      else if (is_letter(c))
        read_letters();
      else if (c == '\\')
        read_command();
      else
        read_symbol();
    }
    push(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool starts_with(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  bool skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '~' || text_[at_] == '"')) {
      space_ = true;
      ++at_;
    }
    return at_ < text_.size();
  }

  Token& push(Token::Kind kind, std::string text) {
    tokens_.push_back({.kind = kind, .text = std::move(text), .space_before = std::exchange(space_, false)});
    return tokens_.back();
  }

  void read_symbol() {
    const char c = peek();
    if (std::string_view("+-*/^_()[]{},;:=<>|!'%&.").find(c) == std::string_view::npos) throw Undecided{};
    if (starts_with("..")) {  // 0.333... goes on; a full stop does not
      while (peek() == '.') ++at_;
      push(Token::Kind::kCommand, "ldots");
      return;
    }
    ++at_;
    if (c == '*' && peek() == '*') {  // Python's power
      ++at_;
      push(Token::Kind::kSymbol, "^");
      return;
    }
    if ((c == '<' || c == '>' || c == '!') && peek() == '=') {
      ++at_;
      push(Token::Kind::kCommand, c == '<' ? "le" : c == '>' ? "ge" : "ne");
      return;
    }
    track_brackets(c);
    push(Token::Kind::kSymbol, std::string(1, c));
  }

  /// In (1,234) the comma separates two coordinates; in "(1,234, 5,678)" it groups digits.
  void track_brackets(char c) {
    if (c == '(' || c == '[') {
      int depth = 0;
      bool spaced = false;
      for (size_t i = at_; i < text_.size() && i < at_ + 200 && depth >= 0; ++i) {
        if (text_[i] == '(' || text_[i] == '[') ++depth;
        if (text_[i] == ')' || text_[i] == ']') --depth;
        spaced |= depth == 0 && text_[i] == ',' && i + 1 < text_.size() && text_[i + 1] == ' ';
      }
      groups_digits_.push_back(spaced);
    }
    if ((c == ')' || c == ']') && !groups_digits_.empty()) groups_digits_.pop_back();
  }

  /// Length of a separator of thousands with three digits behind it, or 0.
  size_t thousands_separator(size_t digits_before) const {
    if (digits_before == 0 || digits_before > 3) return 0;
    for (const std::string_view separator : {"{,}", ",\\! ", ",\\!", "\\,", ",", " "}) {
      if (!starts_with(separator)) continue;
      if (separator == "," && !groups_digits_.empty() && !groups_digits_.back()) return 0;
      const size_t n = separator.size();
      if (is_digit(peek(n)) && is_digit(peek(n + 1)) && is_digit(peek(n + 2)) && !is_digit(peek(n + 3))) return n;
    }
    return 0;
  }

  void read_number() {
    std::string digits, decimals, repeating;
    const auto read_digits = [&](std::string& to) {
      while (is_digit(peek())) to += text_[at_++];
    };
    read_digits(digits);
    bool plain = true;
    size_t group = digits.size() > 0 && digits[0] == '0' ? 0 : digits.size();
    while (const size_t separator = thousands_separator(group)) {
      at_ += separator;
      for (int i = 0; i < 3; ++i) digits += text_[at_++];
      group = 3;
      plain = false;
    }
    if (peek() == '.' && (is_digit(peek(1)) || text_.substr(at_ + 1).starts_with("\\overline") ||
                          text_.substr(at_ + 1).starts_with("\\bar") || text_.substr(at_ + 1).starts_with("\\dot{"))) {
      ++at_;
      plain = false;
      read_digits(decimals);
      repeating = read_repeating();
    }
    int64_t exponent = 0;
    if ((peek() == 'e' || peek() == 'E') &&
        (is_digit(peek(1)) || ((peek(1) == '-' || peek(1) == '+') && is_digit(peek(2))))) {
      const bool negative = peek(1) == '-';
      at_ += is_digit(peek(1)) ? 1 : 2;
      std::string power;
      read_digits(power);
      if (power.size() > 5) throw Undecided{};
      exponent = std::stoll(power) * (negative ? -1 : 1);
      plain = false;
    }
    if (digits.size() + decimals.size() + repeating.size() > kMaxDigits || std::abs(exponent) > 4000) throw Undecided{};
    const Rational ten(10);
    Rational value =
        Rational(Integer::from_digits(digits + decimals)) / ten.power(static_cast<int64_t>(decimals.size()));
    if (!repeating.empty()) {
      const Rational period = ten.power(static_cast<int64_t>(repeating.size())) - Rational(1);
      value = value +
              Rational(Integer::from_digits(repeating)) / (period * ten.power(static_cast<int64_t>(decimals.size())));
    }
    if (exponent != 0) value = value * ten.power(exponent);
    Token& token = push(Token::Kind::kNumber, digits);
    token.value = value;
    token.is_plain_integer = plain;
  }

  /// The 3 of 0.1\overline{3}.
  std::string read_repeating() {
    for (const std::string_view command : {"\\overline{", "\\bar{", "\\dot{"}) {
      if (!starts_with(command)) continue;
      const size_t close = text_.find('}', at_);
      if (close == std::string_view::npos) throw Undecided{};
      const std::string_view inside = text_.substr(at_ + command.size(), close - at_ - command.size());
      if (inside.empty() || !std::all_of(inside.begin(), inside.end(), is_digit)) throw Undecided{};
      at_ = close + 1;
      return std::string(inside);
    }
    return {};
  }

  /// 2024-01-02 is a day and not 2021: one symbol, which no formula holds.
  bool read_date() {
    constexpr std::string_view kDate = "dddd-dd-dd";
    if (is_digit(peek(kDate.size()))) return false;
    for (size_t i = 0; i < kDate.size(); ++i)
      if (kDate[i] == 'd' ? !is_digit(peek(i)) : peek(i) != kDate[i]) return false;
    push(Token::Kind::kSymbol, std::string(text_.substr(at_, kDate.size())));
    at_ += kDate.size();
    return true;
  }

  /// 1011_2, 2A_{16}, 77_{eight}: a number only if something in it cannot be a variable.
  bool read_based_number() {
    size_t end = at_;
    bool has_digit = false;
    while (end < text_.size() && end < at_ + 200 && (is_digit(text_[end]) || (text_[end] >= 'A' && text_[end] <= 'F')))
      has_digit |= is_digit(text_[end++]);
    if (!has_digit || end + 1 >= text_.size() || text_[end] != '_') return false;
    std::string_view rest = text_.substr(end + 1);
    size_t used = end + 1;
    std::string name;
    if (rest[0] == '{') {
      const size_t close = rest.find('}');
      if (close == std::string_view::npos) return false;
      name = std::string(rest.substr(1, close - 1));
      used += close + 1;
      if (name.starts_with("\\text{")) {
        name = name.substr(6);
        if (used >= text_.size() || text_[used] != '}') return false;
        ++used;
      }
    } else {
      while (!rest.empty() && is_digit(rest[0]) && name.size() < 2) name += rest[0], rest.remove_prefix(1), ++used;
    }
    uint32_t base = 0;
    if (!name.empty() && name.size() <= 2 && std::all_of(name.begin(), name.end(), is_digit))
      base = static_cast<uint32_t>(std::stoul(name));
    for (uint32_t i = 2; i < kBaseNames.size(); ++i)
      if (name == kBaseNames[i]) base = i;
    if (base < 2 || base > 36) return false;
    Integer value(0);
    for (size_t i = at_; i < end; ++i) {
      const uint32_t digit =
          is_digit(text_[i]) ? static_cast<uint32_t>(text_[i] - '0') : static_cast<uint32_t>(text_[i] - 'A' + 10);
      if (digit >= base) throw Undecided{};
      value = value * Integer(base) + Integer(digit);
    }
    Token& token = push(Token::Kind::kNumber, std::string(text_.substr(at_, end - at_)));
    token.value = Rational(value);
    token.is_based = true;
    at_ = used;
    return true;
  }

  void read_letters() {
    const size_t start = at_;
    while (is_letter(peek())) ++at_;
    const std::string word(text_.substr(start, at_ - start));
    push(word.size() == 1 ? Token::Kind::kLetter : Token::Kind::kWord, word);
  }

  /// The braces behind a command such as \text, with those inside kept.
  std::string read_braces() {
    skip_space();
    if (peek() != '{') {  // \text a
      std::string one(1, peek());
      if (at_ < text_.size()) ++at_;
      return one;
    }
    size_t depth = 0;
    const size_t start = at_ + 1;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '{') ++depth;
      if (text_[at_] == '}' && --depth == 0) return std::string(text_.substr(start, at_++ - start));
    }
    throw Undecided{};
  }

  void read_command() {
    ++at_;
    if (!is_letter(peek())) {
      const char c = peek();
      if (c == '\0') throw Undecided{};
      ++at_;
      if (std::string_view(",;:! >/").find(c) != std::string_view::npos) {
        space_ |= c != '!';
      } else if (c == '\\') {
        if (is_letter(peek()) && !in_matrix_) {  // \\frac: an escaped backslash
          --at_;
          return read_command();
        }
        push(Token::Kind::kSymbol, "\\\\");
      } else if (c == '|') {
        push(Token::Kind::kSymbol, "|");
      } else if (c == '%') {
        push(Token::Kind::kSymbol, "%");
      } else {  // \{ \} \$ \_ \& \#
        push(Token::Kind::kCommand, std::string(1, c));
      }
      return;
    }
    const size_t start = at_;
    while (is_letter(peek())) ++at_;
    std::string name(text_.substr(start, at_ - start));
    if (is_one_of(name, kLayout)) {
      if ((name == "left" || name == "right") && peek() == '.') ++at_;
      space_ = true;
      return;
    }
    if (is_one_of(name, kTextCommands)) return read_text(name);
    if (name == "hspace" || name == "phantom" || name == "vspace" || name == "label") {
      read_braces();
      return;
    }
    if (name == "begin" || name == "end") {
      in_matrix_ = name == "begin";
      push(Token::Kind::kCommand, name).value = Rational(0);
      tokens_.back().text = name + ":" + read_braces();
      return;
    }
    push(Token::Kind::kCommand, name == "dots" || name == "cdots" ? "ldots" : name);
  }

  void read_text(const std::string& command) {
    std::string inside = read_braces();
    // \text{(A)} and \mathrm{x} hold formulas; words stay words.
    const size_t first = inside.find_first_not_of(" ~");
    const bool has_dots = inside.find("..") != std::string::npos;
    const size_t last = inside.find_last_not_of(has_dots ? " ~" : " ~.,");
    if (first == std::string::npos || last == std::string::npos || last < first) return;
    inside = inside.substr(first, last - first + 1);
    const bool is_words = !has_dots && std::all_of(inside.begin(), inside.end(), [](char c) {
      return is_letter(c) || c == ' ' || c == '~' || c == '.' || c == '-' || c == '\'';
    });
    const bool has_word = inside.size() > 1 && is_letter(inside[0]);
    if (is_words && (has_word || command != "operatorname")) {
      if (inside.size() == 1)
        push(Token::Kind::kLetter, inside).space_before = true;
      else
        push(Token::Kind::kText, inside).space_before = true;
      return;
    }
    std::vector<Token> nested = Lexer(inside, depth_ + 1).run();
    nested.pop_back();
    if (!nested.empty()) nested[0].space_before = true;
    tokens_.insert(tokens_.end(), nested.begin(), nested.end());
  }

  std::string_view text_;
  size_t at_ = 0;
  bool space_ = false, in_matrix_ = false;
  int depth_;                        // of \text inside \text
  std::vector<bool> groups_digits_;  // for each open bracket: whether commas without a space may group digits
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view ascii) { return Lexer(ascii).run(); }

}  // namespace keel::math
