#include "keel/compat/recipe.h"

#include "keel/core/console.h"
#include "keel/core/options/yaml_text.h"
#include "keel/core/strings.h"

namespace keel::compat {
namespace {

constexpr int kNoLine = 0;  // The value is on the command line.

bool is_space(char c) { return c == ' ' || c == '\t'; }

/// Parses a scalar. Hydra allows single _ between digits; a leading zero makes a string.
Json parse_scalar(std::string text, const TreeBuilder& builder) {
  const std::string word = lower_case(text);
  if (word == "null" || word == "~") return nullptr;
  if (word == "true" || word == "false") return word == "true";
  std::string number;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_separator = i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (text[i] != '_' || !is_separator) number += text[i];
  }
  const size_t first = number.find_first_of("0123456789");
  const bool leading_zero = first != std::string::npos && number[first] == '0' && first + 1 < number.size() &&
                            is_digit(number[first + 1]) && (first == 0 || number[first - 1] != '.');
  if (leading_zero || !is_number_text(number)) return text;
  return plain_scalar(number, builder.location(kNoLine));
}

class HydraReader {
 public:
  HydraReader(std::string_view text, TreeBuilder& builder) : text_(text), builder_(builder) {}

  void read() {
    skip_spaces();
    if (pos_ == text_.size()) return builder_.scalar("", kNoLine);
    element();
    skip_spaces();
    if (pos_ == text_.size()) return;
    if (text_[pos_] == ',')
      refuse(
          "comma-separated values are a Hydra sweep (--multirun). Keep one, write a list as [a,b], or quote a string "
          "with commas: '\"a,b\"'");
    refuse("'", shorten(text_.substr(pos_), kShown), "' follows the end of the value. ", kFix);
  }

 private:
  static constexpr size_t kShown = 40;
  static constexpr const char* kFix =
      "Write a number, true, false, null, a list [a, b], a mapping {name: value} or a string, quoted if it has one of "
      ", : [ ] { } ( )";

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    builder_.refuse(kNoLine, parts...);
  }
  void skip_spaces() {
    while (pos_ < text_.size() && is_space(text_[pos_])) ++pos_;
  }
  /// Consumes this character if it comes next, after spaces.
  bool consume(char expected) {
    skip_spaces();
    const bool found = pos_ < text_.size() && text_[pos_] == expected;
    pos_ += found ? 1 : 0;
    return found;
  }
  bool at_quote() const { return pos_ < text_.size() && (text_[pos_] == '"' || text_[pos_] == '\''); }

  void element() {
    if (consume('[')) return list();
    if (consume('{')) return mapping();
    if (at_quote()) return builder_.scalar(quoted(), kNoLine);
    bool escaped = false;
    const std::string text = word("", escaped);
    builder_.scalar(escaped ? Json(text) : parse_scalar(text, builder_), kNoLine);
  }

  void list() {
    builder_.begin_list(kNoLine);
    for (bool first = true; !consume(']'); first = false) {
      if (!first && !consume(',')) refuse("the list has no , or ] after a value. Write it as [a, b]");
      element();
    }
    builder_.end();
  }

  void mapping() {
    builder_.begin_mapping(kNoLine);
    for (bool first = true; !consume('}'); first = false) {
      if (!first && !consume(',')) refuse("the mapping has no , or } after a value. Write it as {name: value}");
      skip_spaces();
      bool escaped = false;
      const std::string name = at_quote() ? quoted() : word(":", escaped);
      if (!consume(':'))
        refuse("there is no : after \"", shorten(name, kShown), "\". Write a mapping as {name: value}");
      builder_.key(name, kNoLine);
      element();
    }
    builder_.end();
  }

  /// Reads a quoted string. Backslashes are special only before a quote of the same kind.
  std::string quoted() {
    const char quote = text_[pos_++];
    std::string value;
    while (pos_ < text_.size() && text_[pos_] != quote) {
      size_t slashes = 0;
      while (pos_ + slashes < text_.size() && text_[pos_ + slashes] == '\\') ++slashes;
      const bool before_quote = slashes > 0 && pos_ + slashes < text_.size() && text_[pos_ + slashes] == quote;
      // n backslashes before a quote are n / 2, and the quote if n is odd.
      value.append(before_quote ? slashes / 2 : slashes, '\\');
      pos_ += slashes;
      if (slashes > 0 && (!before_quote || slashes % 2 == 0)) continue;
      value += text_[pos_++];
    }
    if (pos_ == text_.size()) refuse("the closing quote is missing");
    ++pos_;
    return value;
  }

  /// The text up to a comma, a bracket or one of `ends`, without surrounding spaces.
  std::string word(std::string_view ends, bool& escaped) {
    std::string value;
    size_t trimmed_size = 0;
    for (; pos_ < text_.size(); ++pos_) {
      char c = text_[pos_];
      const bool escapes = c == '\\' && pos_ + 1 < text_.size() &&
                           std::string_view("\\()[]{}:=, \t").find(text_[pos_ + 1]) != std::string_view::npos;
      if (!escapes && (std::string_view(",[]{}").find(c) != std::string_view::npos || ends.find(c) != ends.npos)) break;
      if (!escapes && c == '(')
        refuse("'", shorten(text_, kShown),
               "' calls a Hydra function, which `keel import` does not support. Write the value, "
               "or quote a string with (: '\"a(b)\"'");
      if (escapes) c = text_[++pos_];
      value += c;
      if (escapes || !is_space(c)) trimmed_size = value.size();
      escaped = escaped || escapes;
    }
    value.resize(trimmed_size);
    if (value.empty()) refuse("a value is missing at column ", pos_ + 1, ". ", kFix);
    return value;
  }

  std::string_view text_;
  TreeBuilder& builder_;
  size_t pos_ = 0;
};

}  // namespace

void read_hydra_value(std::string_view text, TreeBuilder& builder) {
  if (text.find("${") != text.npos)
    builder.refuse(kNoLine,
                   "references (${...}) are not supported here. Fix: run verl with --cfg job --resolve, "
                   "and import its output");
  HydraReader(text, builder).read();
}

}  // namespace keel::compat
