#include "libs/hftext/jinja/syntax/lexer.h"

#include <algorithm>

#include "keel/core/error.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/syntax/lexer_literals.h"

namespace keel::jinja {
namespace {

constexpr size_t kNone = std::string::npos;

/// Converts all newlines to \n and drops one at the end.
std::string normalize_newlines(const std::string& source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    const bool is_break = source[i] == '\r';
    if (is_break && i + 1 < source.size() && source[i + 1] == '\n') ++i;
    result += is_break ? '\n' : source[i];
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

class Lexer {
 public:
  Lexer(std::string source, const std::string& location) : source_(std::move(source)), location_(location) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_data();
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) {
    move_line_to(at_);
    keel::fail(ExitCode::kBadInput, location_, ":", line_, ": ", parts...);
  }

  void move_line_to(size_t at) {
    if (at < counted_) return;
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<long>(counted_), source_.begin() + static_cast<long>(at), '\n'));
    counted_ = at;
  }

  Token& push(TokenKind kind, std::string text) {
    move_line_to(std::min(at_, source_.size()));
    return tokens_.emplace_back(Token{kind, line_, std::move(text)});
  }

  void advance(size_t count) {
    at_ += count;
    at_line_start_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  /// Reads text up to the next tag and applies the tag's white-space control.
  void read_data() {
    size_t tag = at_;
    while ((tag = source_.find('{', tag)) != kNone) {
      if (tag + 1 < source_.size() && std::string_view("%{#").find(source_[tag + 1]) != kNone) break;
      ++tag;
    }
    if (tag == kNone) {
      push(TokenKind::kData, std::string(rest()));
      return advance(rest().size());
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool signed_tag = sign == '-' || sign == '+';
    emit_data(source_.substr(at_, tag - at_), sign, kind == '{');
    at_ = tag;
    const size_t raw = kind == '%' ? raw_begin_length(tag) : 0;
    if (raw > 0) {
      advance(raw);
      return raw_block();
    }
    if (kind == '#') {
      advance(2 + signed_tag);
      return comment();
    }
    push(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, "");
    advance(2 + signed_tag);
    read_tag(kind == '%' ? '%' : '}');
  }

  void emit_data(std::string text, char sign, bool is_variable) {
    if (sign == '-') {
      text.resize(text.size() - trailing_space(text));
    } else if (sign != '+' && !is_variable) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == kNone ? 0 : newline + 1;
      if ((line > 0 || at_line_start_) && leading_space(std::string_view(text).substr(line)) == text.size() - line) {
        text.resize(line);
      }
    }
    if (!text.empty()) push(TokenKind::kData, std::move(text));
  }

  size_t skip_space(size_t at) const { return at + leading_space(std::string_view(source_).substr(at)); }
  bool starts_with_at(size_t at, std::string_view text) const {
    return at <= source_.size() && std::string_view(source_).substr(at).starts_with(text);
  }

  /// Length of `{% NAME %}` at `tag`; 0 if there is none.
  size_t named_tag_length(size_t tag, std::string_view name) const {
    size_t at = tag + 2;
    if (starts_with_at(at, "-") || starts_with_at(at, "+")) ++at;
    at = skip_space(at);
    if (!starts_with_at(at, name)) return 0;
    return skip_space(at + name.size()) - tag;
  }

  size_t raw_begin_length(size_t tag) const {
    const size_t length = named_tag_length(tag, "raw");
    if (length == 0) return 0;
    const size_t at = tag + length;
    if (starts_with_at(at, "-%}")) return skip_space(at + 3) - tag;
    return starts_with_at(at, "%}") ? at + 2 - tag : 0;
  }

  /// Length of an end tag at `at` with the space that it trims; 0 if there is none.
  size_t end_length(size_t at, std::string_view end, bool plus, bool trim_newline) const {
    if (plus && starts_with_at(at, "+") && starts_with_at(at + 1, end)) return 1 + end.size();
    if (starts_with_at(at, "-") && starts_with_at(at + 1, end)) return skip_space(at + 1 + end.size()) - at;
    if (!starts_with_at(at, end)) return 0;
    return end.size() + (trim_newline && starts_with_at(at + end.size(), "\n"));
  }

  void raw_block() {
    if (at_ == source_.size()) return;
    for (size_t tag = source_.find("{%", at_); tag != kNone; tag = source_.find("{%", tag + 1)) {
      const size_t name = named_tag_length(tag, "endraw");
      const size_t end = name == 0 ? 0 : end_length(tag + name, "%}", true, true);
      if (end == 0) continue;
      emit_data(source_.substr(at_, tag - at_), source_[tag + 2], false);
      at_ = tag;
      return advance(name + end);
    }
    fail("{% raw %} has no {% endraw %}");
  }

  void comment() {
    if (at_ == source_.size()) return;
    const size_t end = source_.find("#}", at_);
    if (end == kNone) fail("a comment {# has no end #}");
    const bool has_sign = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    const size_t from = has_sign ? end - 1 : end;
    const size_t length = end_length(from, "#}", true, true);
    at_ = from;
    advance(length);
  }

  void read_tag(char kind) {
    std::string open;  // brackets not yet closed
    while (at_ < source_.size()) {
      const size_t end = open.empty() ? end_length(at_, kind == '%' ? "%}" : "}}", kind == '%', kind == '%') : 0;
      if (end > 0) {
        push(kind == '%' ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, "");
        return advance(end);
      }
      if (const size_t space = leading_space(rest()); space > 0) {
        advance(space);
      } else if (!number() && !name() && !string()) {
        symbol(open);
      }
    }
  }

  bool number() {
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    const NumberLiteral literal = read_number(rest(), after_dot);
    if (literal.length == 0) return false;
    if (literal.overflow) fail("the number ", rest().substr(0, literal.length), " does not fit into 64 bits");
    Token& token = push(literal.is_float ? TokenKind::kFloat : TokenKind::kInteger, "");
    token.integer = literal.integer;
    token.number = literal.number;
    advance(literal.length);
    return true;
  }

  bool name() {
    size_t end = at_;
    bool valid = true;
    while (end < source_.size()) {
      size_t next = end;
      const char32_t code = next_code_point(source_, next);
      if (code != '_' && !is_alnum(code)) break;
      valid = valid && (code == '_' || is_alpha(code) || (end > at_ && is_decimal(code)));
      end = next;
    }
    if (end == at_) return false;
    if (!valid) fail("'", rest().substr(0, end - at_), "' is not a name");
    push(TokenKind::kName, source_.substr(at_, end - at_));
    advance(end - at_);
    return true;
  }

  bool string() {
    const char quote = source_[at_];
    if (quote != '\'' && quote != '"') return false;
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("a string has no end; close it with ", quote);
    std::string value, problem;
    if (!unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1), value, problem)) fail(problem);
    push(TokenKind::kString, std::move(value));
    advance(end + 1 - at_);
    return true;
  }

  void symbol(std::string& open) {
    size_t length = 0;
    for (std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (rest().starts_with(two)) length = 2;
    }
    if (length == 0 && std::string_view("+-/*%~[](){}><=.:|,;").find(source_[at_]) != kNone) length = 1;
    if (length == 0) {
      size_t end = at_;
      next_code_point(source_, end);
      fail("unexpected character '", source_.substr(at_, end - at_), "' inside a tag");
    }
    const char c = source_[at_];
    if (length == 1 && (c == '(' || c == '[' || c == '{')) open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (length == 1 && (c == ')' || c == ']' || c == '}')) {
      if (open.empty()) fail("unexpected '", c, "'; nothing is open");
      if (open.back() != c) fail("unexpected '", c, "', expected '", open.back(), "'");
      open.pop_back();
    }
    push(TokenKind::kOperator, source_.substr(at_, length));
    advance(length);
  }

  const std::string source_;
  const std::string& location_;
  size_t at_ = 0;
  bool at_line_start_ = true;
  int line_ = 1;
  size_t counted_ = 0;  // bytes whose newlines are in line_
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string source, const std::string& location) {
  return Lexer(normalize_newlines(source), location).run();
}

}  // namespace keel::jinja
