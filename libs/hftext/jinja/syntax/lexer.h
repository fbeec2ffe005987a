#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace keel::jinja {

enum class TokenKind : uint8_t {
  kData,           // text outside of tags
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,  // of the template
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // the string's value, the name, the operator
  int64_t integer = 0;
  double number = 0;

  bool is_operator(std::string_view symbol) const { return kind == TokenKind::kOperator && text == symbol; }
  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
};

/// The tokens of a template, the last of which is kEnd. Trims white space as transformers does: the newline after a
/// block (trim_blocks) and the spaces before a block at the start of a line (lstrip_blocks). `location` names the
/// template in errors.
std::vector<Token> tokenize(std::string source, const std::string& location);

}  // namespace keel::jinja
