#pragma once

#include "libs/hftext/jinja/syntax/ast.h"
#include "libs/hftext/jinja/syntax/token_stream.h"

namespace keel::jinja {

/// Recursive-descent parser of expressions. The functions are in order of increasing precedence.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  ExpressionPtr expression(bool with_conditional = true);
  /// Parses an expression, or a tuple if there are commas. The name `end` also ends it.
  ExpressionPtr tuple(bool with_conditional = true, std::string_view end = "", bool in_parentheses = false);
  /// Parses an assignment target: a name or a tuple of names; with `with_namespace` also name.attribute.
  ExpressionPtr target(bool with_namespace, std::string_view end = "");
  /// Parses filters applied to `input` (may be null). With `inline_start` the first one has no |.
  ExpressionPtr filters(ExpressionPtr input, bool inline_start);

 private:
  ExpressionPtr conditional();
  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filter = true);
  ExpressionPtr primary(bool with_namespace = false);
  ExpressionPtr name_or_literal(const Token& token, bool with_namespace);
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr filters_and_tests(ExpressionPtr node);
  ExpressionPtr attribute(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr node);
  ExpressionPtr slice(ExpressionPtr object, ExpressionPtr start, int line);
  ExpressionPtr call(ExpressionPtr callee);
  ExpressionPtr test(ExpressionPtr node);
  CallArguments call_arguments();
  void named_argument(CallArguments& arguments);
  std::string dotted_name();
  void check_target(const Expression& target) const;
  bool at_tuple_end(std::string_view end) const;

  ExpressionPtr make(ExpressionKind kind, int line) const;
  /// Adds a child to `parent` and limits the depth of the tree.
  void adopt(Expression& parent, ExpressionPtr child) const;
  void count_depth(Expression& parent, const Expression* child) const;
  ExpressionPtr binary(ExpressionKind kind, int line, ExpressionPtr left, ExpressionPtr right) const;

  TokenStream& stream_;
};

}  // namespace keel::jinja
