#include "libs/mathverify/parse/lexer.h"

#include <algorithm>
#include <array>

#include "libs/mathverify/parse/characters.h"
#include "libs/mathverify/parse/written_number.h"

namespace keel::math {
namespace {

constexpr size_t kMaxTokens = 3000;
constexpr int kMaxTextNesting = 8;

// Commands that only affect formatting.
constexpr std::array<std::string_view, 45> kFormattingCommands = {
    "large",        "Large",      "LARGE",     "huge",   "Huge",      "small",     "tiny",         "scriptstyle",
    "footnotesize", "scriptsize", "left",      "right",  "big",       "Big",       "bigg",         "Bigg",
    "bigl",         "bigr",       "Bigl",      "Bigr",   "biggl",     "biggr",     "displaystyle", "textstyle",
    "limits",       "nolimits",   "quad",      "qquad",  "mathstrut", "rm",        "bf",           "it",
    "boldsymbol",   "mathbf",     "mathit",    "bm",     "nobreak",   "thinspace", "enspace",      "middle",
    "strut",        "normalsize", "underline", "mathop", "mathnormal"};
constexpr std::array<std::string_view, 12> kTextCommands = {"text",         "textbf", "textit", "textrm",
                                                            "textnormal",   "mathrm", "mbox",   "hbox",
                                                            "operatorname", "mathsf", "texttt", "emph"};
// Commands whose argument is irrelevant to the answer, and environments that only arrange formulas in lines.
constexpr std::array<std::string_view, 7> kIgnoredCommands = {"hspace", "phantom", "vspace",   "label",
                                                              "tag",    "color",   "textcolor"};
constexpr std::array<std::string_view, 10> kLineEnvironments = {"equation", "equation*", "align", "align*", "aligned",
                                                                "gather",   "gather*",   "split", "cases",  "dcases"};

class Lexer {
 public:
  explicit Lexer(std::string_view text, int depth = 0) : text_(text), depth_(depth) {
    if (depth > kMaxTextNesting) throw Undecided{};
  }

  std::vector<Token> run() {
    while (skip_space()) {
      if (tokens_.size() > kMaxTokens) throw Undecided{};
      const char c = peek();
      if (read_date()) continue;
      if (const WrittenNumber number = read_based(text_.substr(at_)); number.length > 0)
        take(number);
      else if (is_digit(c) || (c == '.' && (is_digit(peek(1)) || starts_with(".\\overline"))))
        take(read_decimal(text_.substr(at_), groups_digits_.empty() || groups_digits_.back()));
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
    if (starts_with("..")) {  // 0.333...; a single period is dropped
      while (peek() == '.') ++at_;
      push(Token::Kind::kCommand, "ldots");
      return;
    }
    if (c == '{' && (starts_with("{-}") || starts_with("{+}") || starts_with("{=}"))) {  // a braced sign
      push(Token::Kind::kSymbol, std::string(1, peek(1)));
      at_ += 3;
      return;
    }
    ++at_;
    if (c == '&' && in_lines_ && !in_matrix_) return read_alignment();
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

  /// In cases, "&" precedes the condition of a piece; next to a relation sign it only aligns.
  void read_alignment() {
    skip_space();
    const auto is_relation = [](const Token& token) {
      return token.is("=") || token.is("<") || token.is(">") || token.is_command("le") || token.is_command("ge");
    };
    const bool aligns = std::string_view("=<>&\\").find(peek()) != std::string_view::npos && !starts_with("\\text") &&
                        !starts_with("\\mbox") && !starts_with("\\quad");
    if (!in_cases_ || aligns || tokens_.empty() || tokens_.back().is(";") || is_relation(tokens_.back())) return;
    drop_comma();
    push(Token::Kind::kSymbol, "&&");  // "&" separates the cells of a matrix
  }

  void drop_comma() {
    if (!tokens_.empty() && (tokens_.back().is(",") || tokens_.back().is("."))) tokens_.pop_back();
  }

  /// Records whether commas in a bracket group digits, as in "(1,234, 5,678)" but not in the pair (1,234).
  void track_brackets(char c) {
    if (c == '(' || c == '[') {
      constexpr size_t kMaxBracket = 200;
      int depth = 0;
      bool spaced = false;
      for (size_t i = at_; i < text_.size() && i < at_ + kMaxBracket && depth >= 0; ++i) {
        if (text_[i] == '(' || text_[i] == '[') ++depth;
        if (text_[i] == ')' || text_[i] == ']') --depth;
        spaced |= depth == 0 && text_[i] == ',' && i + 1 < text_.size() && text_[i + 1] == ' ';
      }
      groups_digits_.push_back(spaced);
    }
    if ((c == ')' || c == ']') && !groups_digits_.empty()) groups_digits_.pop_back();
  }

  void take(const WrittenNumber& number) {
    Token& token = push(Token::Kind::kNumber, number.digits);
    token.value = number.value;
    token.is_plain_integer = number.is_plain;
    token.is_based = number.is_based;
    at_ += number.length;
  }

  /// Reads dates as one symbol: 2024-01-02 is not 2021, and 4/2/2024 is not 1/1012.
  bool read_date() {
    for (const std::string_view date : {"dddd-dd-dd", "dd/dd/dddd", "d/dd/dddd", "dd/d/dddd", "d/d/dddd"}) {
      bool fits = !is_digit(peek(date.size()));
      for (size_t i = 0; i < date.size(); ++i) fits = fits && (date[i] == 'd' ? is_digit(peek(i)) : peek(i) == date[i]);
      if (!fits) continue;
      push(Token::Kind::kSymbol, std::string(text_.substr(at_, date.size())));
      at_ += date.size();
      return true;
    }
    return false;
  }

  void read_letters() {
    const size_t start = at_;
    const bool is_am_pm = (peek() | 0x20) == 'a' || (peek() | 0x20) == 'p';
    if (is_am_pm && peek(1) == '.' && (peek(2) | 0x20) == 'm' && !is_letter(peek(3))) {  // p.m.
      push(Token::Kind::kWord, (peek() | 0x20) == 'a' ? "am" : "pm");
      at_ += peek(3) == '.' ? 4 : 3;
      return;
    }
    while (is_letter(peek())) ++at_;
    const std::string word(text_.substr(start, at_ - start));
    push(word.size() == 1 ? Token::Kind::kLetter : Token::Kind::kWord, word);
  }

  /// Reads the braced argument of a command such as \text; nested braces are kept.
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
        read_row_end();
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
    if ((name == "rm" || name == "mathit") && peek() == '{') return read_text(name);
    if (is_one_of(name, kFormattingCommands)) {
      if ((name == "left" || name == "right") && peek() == '.') ++at_;
      space_ = true;
      return;
    }
    if (is_one_of(name, kTextCommands)) return read_text(name);
    if (is_one_of(name, kIgnoredCommands)) {
      read_braces();
      return;
    }
    if (name == "begin" || name == "end") return read_environment(name);
    if (name == "vert") return void(push(Token::Kind::kSymbol, "|"));
    if (name == "cr") return read_row_end();
    if (name == "lbrack" || name == "rbrack") return void(push(Token::Kind::kSymbol, name == "lbrack" ? "[" : "]"));
    if (name == "top") return void(push(Token::Kind::kLetter, "T"));
    push(Token::Kind::kCommand, name == "dots" || name == "cdots" ? "ldots" : name);
  }

  void read_environment(const std::string& command) {
    const std::string name = read_braces();
    const bool begins = command == "begin";
    const bool opens_cases = begins && name == "array" && !tokens_.empty() && tokens_.back().is_command("{");
    if (opens_cases) {  // \left\{\begin{array}{l}
      tokens_.pop_back();
      read_braces();
    }
    if (is_one_of(name, kLineEnvironments) || opens_cases || (name == "array" && in_cases_)) {
      if (in_cases_ && !begins) drop_comma();
      in_lines_ = begins;
      in_cases_ = begins && (name == "cases" || name == "dcases" || opens_cases);
      return;
    }
    in_matrix_ = command == "begin";
    push(Token::Kind::kCommand, command + ":" + name);
  }

  /// True at the [4pt] of \\[4pt], which is only vertical space.
  bool starts_with_length() const {
    const size_t unit = text_.find_first_not_of("0123456789.-", at_ + 1);
    return unit != std::string_view::npos && unit + 2 < text_.size() && text_[unit + 2] == ']' &&
           is_letter(text_[unit]);
  }

  /// Reads the end of a row of a matrix or of a multi-line formula.
  void read_row_end() {
    if (is_letter(peek()) && !in_matrix_ && !in_lines_) {  // \\frac: an escaped backslash
      --at_;
      return read_command();
    }
    if (const size_t close = text_.find(']', at_); peek() == '[' && close < at_ + 8 && starts_with_length())
      at_ = close + 1;
    if (in_matrix_ || !in_lines_) return void(push(Token::Kind::kSymbol, "\\\\"));
    if (in_cases_) drop_comma();
    while (skip_space() && peek() == '&') ++at_;
    if (peek() != '=' && !starts_with("\\end")) push(Token::Kind::kSymbol, ";");  // "= 5" continues the previous line
  }

  void read_text(const std::string& command) {
    std::string content = read_braces();
    // \text{(A)} and \mathrm{x} contain formulas; words remain words.
    const size_t first = content.find_first_not_of(" ~");
    const bool has_dots = content.find("..") != std::string::npos;
    const size_t last = content.find_last_not_of(has_dots ? " ~" : " ~.,");
    if (first == std::string::npos || last == std::string::npos || last < first) return;
    content = content.substr(first, last - first + 1);
    const bool is_words = !has_dots && std::all_of(content.begin(), content.end(), [](char c) {
      return is_letter(c) || c == ' ' || c == '~' || c == '.' || c == '-' || c == '\'';
    });
    const bool has_word = content.size() > 1 && is_letter(content[0]);
    const bool is_am_pm = content.size() == 3 && content[1] == '.' &&
                          (content[2] | 0x20) == 'm' &&  // "a.m", without its end
                          ((content[0] | 0x20) == 'a' || (content[0] | 0x20) == 'p');
    if (is_am_pm) return void(push(Token::Kind::kWord, (content[0] | 0x20) == 'a' ? "am" : "pm"));
    if (is_words && (has_word || command != "operatorname")) {
      if (content == "-")
        push(Token::Kind::kSymbol, content);
      else if (content.size() == 1)
        push(Token::Kind::kLetter, content).is_upright = true;
      else
        push(Token::Kind::kText, content).space_before = true;
      return;
    }
    std::vector<Token> nested = Lexer(content, depth_ + 1).run();
    nested.pop_back();
    for (Token& token : nested) token.is_upright = true;
    if (!nested.empty()) nested[0].space_before = true;
    tokens_.insert(tokens_.end(), nested.begin(), nested.end());
  }

  std::string_view text_;
  size_t at_ = 0;
  bool space_ = false, in_matrix_ = false, in_lines_ = false, in_cases_ = false;
  int depth_;                        // nesting of \text
  std::vector<bool> groups_digits_;  // for each open bracket: whether commas without a space may group digits
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view ascii) { return Lexer(ascii).run(); }

}  // namespace keel::math
