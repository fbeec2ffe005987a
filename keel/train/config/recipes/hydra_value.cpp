#include "keel/train/config/recipes/hydra_value.h"

#include "keel/core/console.h"
#include "keel/core/json_reader.h"
#include "keel/core/options/yaml_text.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t'; }

// Words without quotes ----------------------------------------------------------------------------------------------

/// How many digits a text begins with; single _ may stand between them.
size_t digits_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && (is_digit(text[end]) || (text[end] == '_' && end > at && text[end - 1] != '_'))) ++end;
  if (end > at && text[end - 1] == '_') --end;
  return end - at;
}

/// 3, -1_000, .5, 5., 1e-6; no leading zeros, no base.
bool is_number(std::string_view text) {
  size_t at = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const size_t whole = digits_at(text, at);
  if (whole > 1 && text[at] == '0') return false;
  at += whole;
  const bool has_point = at < text.size() && text[at] == '.';
  const size_t behind = has_point ? digits_at(text, at + 1) : 0;
  if (whole + behind == 0) return false;
  at += has_point ? 1 + behind : 0;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const size_t power = digits_at(text, at);
    if (power == 0) return false;
    at += power;
  }
  return at == text.size();
}

Json scalar_of(std::string text, const TreeBuilder& builder) {
  const std::string word = lower_case(text);
  if (word == "null" || word == "~") return nullptr;  // ~ is YAML's, and nothing to Hydra
  if (word == "true" || word == "false") return word == "true";
  const std::string unsigned_word = word.substr(word.find_first_not_of("+-") == 1 ? 1 : 0);
  if (unsigned_word == "inf" || unsigned_word == "nan") builder.refuse(0, "got ", text, ", wanted a finite number");
  if (!is_number(text)) return text;
  std::erase(text, '_');
  return plain_scalar(text, builder.place(0));
}

// The grammar -------------------------------------------------------------------------------------------------------

class HydraReader {
 public:
  HydraReader(std::string_view text, TreeBuilder& builder) : text_(text), builder_(builder) {}

  void read() {
    skip_spaces();
    if (at_ == text_.size()) return builder_.scalar("", 0);
    element();
    skip_spaces();
    if (at_ == text_.size()) return;
    if (text_[at_] == ',')
      builder_.refuse(0, "several values between commas are a sweep of Hydra's (--multirun), and one run has one; ",
                      "keep one of them. A list is written [a,b], a text with commas in quotes of its own: '\"a,b\"'");
    builder_.refuse(0, "'", shorten(text_.substr(at_), kShown), "' stands behind the end of the value", kWayOut);
  }

 private:
  static constexpr size_t kShown = 40;
  static constexpr const char* kWayOut =
      "; wanted a number, true, false, null, a list [a, b], a mapping {name: value} or a text, in quotes of its own "
      "where it has one of , : [ ] { } ( ) in it";

  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  /// Whether this sign comes next, behind spaces; it is taken then.
  bool take(char sign) {
    skip_spaces();
    const bool is_there = at_ < text_.size() && text_[at_] == sign;
    if (is_there) ++at_;
    return is_there;
  }
  bool is_quote() const { return at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\''); }

  void element() {
    if (take('[')) return list();
    if (take('{')) return mapping();
    if (is_quote()) return builder_.scalar(quoted(), 0);
    bool escaped = false;
    const std::string text = word("", escaped);
    builder_.scalar(escaped ? Json(text) : scalar_of(text, builder_), 0);
  }

  void list() {
    builder_.begin_list(0);
    for (bool first = true; !take(']'); first = false) {
      if (!first) comma("list", "]", "[a, b]");
      element();
    }
    builder_.end();
  }

  void mapping() {
    builder_.begin_mapping(0);
    for (bool first = true; !take('}'); first = false) {
      if (!first) comma("mapping", "}", "{enable_thinking: false}");
      skip_spaces();
      bool escaped = false;
      const std::string name = is_quote() ? quoted() : word(":", escaped);
      if (!take(':'))
        builder_.refuse(0, "there is no : behind \"", shorten(name, kShown), "\"; wanted a mapping such as ",
                        "{enable_thinking: false}");
      builder_.key(name, 0);
      element();
    }
    builder_.end();
  }

  void comma(const char* what, const char* closing, const char* example) {
    if (take(',')) return;
    if (at_ == text_.size())
      builder_.refuse(0, "the ", what, " is not closed; wanted ", closing, " at its end, as in ", example);
    builder_.refuse(0, "'", shorten(text_.substr(at_), kShown), "' stands where a comma or ", closing, " ends a value",
                    kWayOut);
  }

  /// A text in quotes. A backslash counts before a quote, and before such a one, only.
  std::string quoted() {
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      size_t slashes = 0;
      while (at_ + slashes < text_.size() && text_[at_ + slashes] == '\\') ++slashes;
      const bool before_quote = slashes > 0 && at_ + slashes < text_.size() && text_[at_ + slashes] == quote;
      value.append(before_quote ? slashes / 2 : slashes, '\\');
      at_ += slashes;
      if (slashes > 0 && (!before_quote || slashes % 2 == 0)) continue;
      value += text_[at_++];
    }
    if (at_ == text_.size()) builder_.refuse(0, "the closing quote is missing");
    ++at_;
    return value;
  }

  /// Up to a comma, a bracket or one of these ends, without the spaces around it.
  std::string word(std::string_view ends, bool& escaped) {
    std::string value;
    size_t kept = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool escapes = c == '\\' && at_ + 1 < text_.size() &&
                           std::string_view("\\()[]{}:=, \t").find(text_[at_ + 1]) != std::string_view::npos;
      const bool refers = text_.substr(at_).starts_with("${");
      if (!refers && (std::string_view(",[]{}").find(c) != std::string_view::npos || ends.find(c) != ends.npos)) break;
      if (c == '(') refuse_function();
      size_t end = at_ + (escapes ? 2 : 1);
      if (refers && (end = end_of_reference(text_, at_)) == std::string_view::npos)
        builder_.refuse(0, "the reference ", shorten(text_.substr(at_), kShown), " is not closed; wanted }");
      if (refers) ++end;
      value += escapes ? std::string(1, text_[at_ + 1]) : std::string(text_.substr(at_, end - at_));
      if (escapes || !is_space(c)) kept = value.size();
      escaped = escaped || escapes;
      at_ = end;
    }
    value.resize(kept);
    if (value.empty()) builder_.refuse(0, "there is a value missing at column ", at_ + 1, " of it", kWayOut);
    return value;
  }

  [[noreturn]] void refuse_function() const {
    builder_.refuse(
        0, "'", shorten(text_, kShown), "' calls a function of Hydra's (a sweep such as choice(a,b), or a ",
        "cast), which is not called here; write the value out, and a text with ( in quotes of its own: ", "'\"a(b)\"'");
  }

  std::string_view text_;
  TreeBuilder& builder_;
  size_t at_ = 0;
};

}  // namespace

size_t end_of_reference(std::string_view text, size_t begin) {
  size_t open = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    if (text.substr(at, 2) == "${") ++open;
    if (text[at] == '}' && --open == 0) return at;
  }
  return std::string_view::npos;
}

void read_setting_value(std::string_view value, WrittenAs written, TreeBuilder& builder) {
  const std::string_view text = trimmed(value);
  const char first = text.empty() ? ' ' : text[0];
  const bool may_be_json = first == '{' || (written != WrittenAs::kHydra && (first == '[' || first == '"'));
  if (written == WrittenAs::kArgument && first != '[' &&
      first != '"')  // a mapping is a text, which the name decides on
    return builder.scalar(plain_scalar(text, builder.place(0)), 0);
  if (may_be_json && try_parse_json(text, {.depth = kDataDepth})) return read_json(text, 0, builder);
  HydraReader(value, builder).read();  // in which a space at the end may be escaped
}

}  // namespace keel
