#include "libs/hftext/jinja/syntax/expression_parser.h"

#include <optional>

namespace keel::jinja {
namespace {

// A chain such as a + b + c + ... is as deep as it is long, and evaluation recurses.
constexpr int kMaxExpressionDepth = 400;

std::optional<Operator> comparison_operator(const Token& token) {
  if (token.is_operator("==")) return Operator::kEqual;
  if (token.is_operator("!=")) return Operator::kNotEqual;
  if (token.is_operator("<")) return Operator::kLess;
  if (token.is_operator("<=")) return Operator::kLessEqual;
  if (token.is_operator(">")) return Operator::kGreater;
  if (token.is_operator(">=")) return Operator::kGreaterEqual;
  return std::nullopt;
}

std::optional<Operator> product_operator(const Token& token) {
  if (token.is_operator("*")) return Operator::kMultiply;
  if (token.is_operator("/")) return Operator::kDivide;
  if (token.is_operator("//")) return Operator::kFloorDivide;
  if (token.is_operator("%")) return Operator::kModulo;
  return std::nullopt;
}

Value constant_text(std::string text) {
  return std::make_shared<const Text>(TracedText(std::move(text)), false, nullptr);
}

}  // namespace

ExpressionPtr ExpressionParser::make(ExpressionKind kind, int line) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

void ExpressionParser::count_depth(Expression& parent, const Expression* child) const {
  if (child == nullptr) return;
  parent.depth = std::max(parent.depth, child->depth + 1);
  if (parent.depth > kMaxExpressionDepth) {
    stream_.fail("an expression is nested more than ", kMaxExpressionDepth, " deep; split it with {% set %}");
  }
}

void ExpressionParser::adopt(Expression& parent, ExpressionPtr child) const {
  count_depth(parent, child.get());
  parent.children.push_back(std::move(child));
}

ExpressionPtr ExpressionParser::binary(ExpressionKind kind, int line, ExpressionPtr left, ExpressionPtr right) const {
  ExpressionPtr node = make(kind, line);
  adopt(*node, std::move(left));
  adopt(*node, std::move(right));
  return node;
}

ExpressionPtr ExpressionParser::expression(bool with_conditional) {
  const TokenStream::NestingGuard guard(stream_);
  return with_conditional ? conditional() : disjunction();
}

ExpressionPtr ExpressionParser::conditional() {
  const int line = stream_.current().line;
  ExpressionPtr value = disjunction();
  while (stream_.skip_name("if")) {
    ExpressionPtr node = make(ExpressionKind::kConditional, line);
    adopt(*node, disjunction());
    adopt(*node, std::move(value));
    ExpressionPtr else_value;
    if (stream_.skip_name("else")) {
      const TokenStream::NestingGuard guard(stream_);
      else_value = conditional();
    }
    adopt(*node, std::move(else_value));
    value = std::move(node);
  }
  return value;
}

ExpressionPtr ExpressionParser::disjunction() {
  const int line = stream_.current().line;
  ExpressionPtr left = conjunction();
  while (stream_.skip_name("or")) left = binary(ExpressionKind::kOr, line, std::move(left), conjunction());
  return left;
}

ExpressionPtr ExpressionParser::conjunction() {
  const int line = stream_.current().line;
  ExpressionPtr left = negation();
  while (stream_.skip_name("and")) left = binary(ExpressionKind::kAnd, line, std::move(left), negation());
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  if (!stream_.is_name("not")) return comparison();
  const TokenStream::NestingGuard guard(stream_);
  ExpressionPtr node = make(ExpressionKind::kNot, stream_.take().line);
  adopt(*node, negation());
  return node;
}

ExpressionPtr ExpressionParser::comparison() {
  ExpressionPtr first = sum();
  ExpressionPtr node = make(ExpressionKind::kCompare, first->line);
  while (true) {
    const std::optional<Operator> compared = comparison_operator(stream_.current());
    if (compared) {
      stream_.take();
      node->operators.push_back(*compared);
    } else if (stream_.skip_name("in")) {
      node->operators.push_back(Operator::kIn);
    } else if (stream_.is_name("not") && stream_.ahead().is_name("in")) {
      stream_.take(), stream_.take();
      node->operators.push_back(Operator::kNotIn);
    } else {
      break;
    }
    if (node->children.empty()) adopt(*node, std::move(first));
    adopt(*node, sum());
  }
  return node->operators.empty() ? std::move(first) : std::move(node);
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concatenation();
  while (stream_.is_operator("+") || stream_.is_operator("-")) {
    const Token& token = stream_.take();
    const Operator op = token.text == "+" ? Operator::kAdd : Operator::kSubtract;
    left = binary(ExpressionKind::kBinary, token.line, std::move(left), concatenation());
    left->operators.push_back(op);
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  ExpressionPtr first = product();
  if (!stream_.is_operator("~")) return first;
  ExpressionPtr node = make(ExpressionKind::kConcat, first->line);
  adopt(*node, std::move(first));
  while (stream_.skip_operator("~")) adopt(*node, product());
  return node;
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (const std::optional<Operator> op = product_operator(stream_.current())) {
    const int line = stream_.take().line;
    left = binary(ExpressionKind::kBinary, line, std::move(left), power());
    left->operators.push_back(*op);
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary();
  while (stream_.is_operator("**")) {
    const int line = stream_.take().line;
    left = binary(ExpressionKind::kBinary, line, std::move(left), unary());
    left->operators.push_back(Operator::kPower);
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filter) {
  const TokenStream::NestingGuard guard(stream_);
  ExpressionPtr node;
  if (stream_.is_operator("-") || stream_.is_operator("+")) {
    const Token& token = stream_.take();
    node = make(ExpressionKind::kUnary, token.line);
    node->operators.push_back(token.text == "-" ? Operator::kSubtract : Operator::kAdd);
    adopt(*node, unary(false));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::primary(bool with_namespace) {
  const Token& token = stream_.current();
  if (token.kind == TokenKind::kName || token.kind == TokenKind::kString || token.kind == TokenKind::kInteger ||
      token.kind == TokenKind::kFloat) {
    stream_.take();
    return name_or_literal(token, with_namespace);
  }
  if (stream_.is_operator("(")) {
    const TokenStream::NestingGuard guard(stream_);
    stream_.take();
    ExpressionPtr node = tuple(true, "", true);
    stream_.expect_operator(")");
    return node;
  }
  if (stream_.is_operator("[")) return list();
  if (stream_.is_operator("{")) return dict();
  stream_.fail("expected an expression, got ", TokenStream::describe(token));
}

ExpressionPtr ExpressionParser::name_or_literal(const Token& token, bool with_namespace) {
  ExpressionPtr node = make(ExpressionKind::kConstant, token.line);
  if (token.kind == TokenKind::kInteger) {
    node->constant = token.integer;
  } else if (token.kind == TokenKind::kFloat) {
    node->constant = token.number;
  } else if (token.kind == TokenKind::kString) {
    std::string text = token.text;
    while (stream_.current().kind == TokenKind::kString) text += stream_.take().text;
    node->constant = constant_text(std::move(text));
  } else if (token.text == "true" || token.text == "True") {
    node->constant = true;
  } else if (token.text == "false" || token.text == "False") {
    node->constant = false;
  } else if (token.text == "none" || token.text == "None") {
    node->constant = None{};
  } else {
    node->kind = ExpressionKind::kName;
    node->name = token.text;
    if (with_namespace && stream_.skip_operator(".")) {
      node->kind = ExpressionKind::kNamespaceRef;
      node->attribute = stream_.expect(TokenKind::kName, "the name of an attribute").text;
    }
  }
  return node;
}

bool ExpressionParser::at_tuple_end(std::string_view end) const {
  const Token& token = stream_.current();
  return token.kind == TokenKind::kVariableEnd || token.kind == TokenKind::kBlockEnd || token.is_operator(")") ||
         (!end.empty() && token.is_name(end));
}

ExpressionPtr ExpressionParser::tuple(bool with_conditional, std::string_view end, bool in_parentheses) {
  ExpressionPtr node = make(ExpressionKind::kTuple, stream_.current().line);
  bool commas = false;
  while (!at_tuple_end(end)) {
    adopt(*node, expression(with_conditional));
    if (!stream_.skip_operator(",")) break;
    commas = true;
  }
  if (commas) return node;
  if (!node->children.empty()) return std::move(node->children[0]);
  if (!in_parentheses) stream_.fail("expected an expression, got ", TokenStream::describe(stream_.current()));
  return node;
}

ExpressionPtr ExpressionParser::target(bool with_namespace, std::string_view end) {
  ExpressionPtr node = make(ExpressionKind::kTuple, stream_.current().line);
  bool commas = false;
  while (!at_tuple_end(end)) {
    adopt(*node, primary(with_namespace));
    if (!stream_.skip_operator(",")) break;
    commas = true;
  }
  if (!commas && node->children.empty()) {
    stream_.fail("expected a name to assign to, got ", TokenStream::describe(stream_.current()));
  }
  if (!commas) node = std::move(node->children[0]);
  check_target(*node);
  return node;
}

void ExpressionParser::check_target(const Expression& node) const {
  if (node.kind == ExpressionKind::kName || node.kind == ExpressionKind::kNamespaceRef) return;
  if (node.kind != ExpressionKind::kTuple) stream_.fail_at(node.line, "only names can be assigned to");
  for (const ExpressionPtr& child : node.children) check_target(*child);
}

ExpressionPtr ExpressionParser::list() {
  ExpressionPtr node = make(ExpressionKind::kList, stream_.take().line);
  while (!stream_.is_operator("]")) {
    if (!node->children.empty()) stream_.expect_operator(",");
    if (stream_.is_operator("]")) break;
    adopt(*node, expression());
  }
  stream_.take();
  return node;
}

ExpressionPtr ExpressionParser::dict() {
  ExpressionPtr node = make(ExpressionKind::kDict, stream_.take().line);
  while (!stream_.is_operator("}")) {
    if (!node->children.empty()) stream_.expect_operator(",");
    if (stream_.is_operator("}")) break;
    adopt(*node, expression());
    stream_.expect_operator(":");
    adopt(*node, expression());
  }
  stream_.take();
  return node;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
  while (true) {
    if (stream_.is_operator(".")) {
      node = attribute(std::move(node));
    } else if (stream_.is_operator("[")) {
      node = subscript(std::move(node));
    } else if (stream_.is_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr node) {
  while (true) {
    if (stream_.is_operator("|")) {
      node = filters(std::move(node), false);
    } else if (stream_.is_name("is")) {
      node = test(std::move(node));
    } else if (stream_.is_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::attribute(ExpressionPtr object) {
  const int line = stream_.take().line;
  const Token& token = stream_.take();
  if (token.kind == TokenKind::kName) {
    ExpressionPtr node = make(ExpressionKind::kAttribute, line);
    node->name = token.text;
    adopt(*node, std::move(object));
    return node;
  }
  if (token.kind != TokenKind::kInteger) stream_.fail_at(token.line, "expected a name or a number after '.'");
  ExpressionPtr index = make(ExpressionKind::kConstant, token.line);
  index->constant = token.integer;
  return binary(ExpressionKind::kItem, line, std::move(object), std::move(index));
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  const int line = stream_.take().line;
  if (stream_.is_operator(":")) return slice(std::move(object), nullptr, line);
  ExpressionPtr index = make(ExpressionKind::kTuple, line);
  while (!stream_.is_operator("]")) {
    if (!index->children.empty()) stream_.expect_operator(",");
    if (stream_.is_operator(":")) stream_.fail("a slice among several indices is not supported");
    adopt(*index, expression());
    if (stream_.is_operator(":") && index->children.size() == 1) {
      return slice(std::move(object), std::move(index->children[0]), line);
    }
  }
  stream_.take();
  if (index->children.size() == 1) index = std::move(index->children[0]);
  return binary(ExpressionKind::kItem, line, std::move(object), std::move(index));
}

ExpressionPtr ExpressionParser::slice(ExpressionPtr object, ExpressionPtr start, int line) {
  ExpressionPtr node = binary(ExpressionKind::kSlice, line, std::move(object), std::move(start));
  stream_.expect_operator(":");
  ExpressionPtr stop, step;
  if (!stream_.is_operator(":") && !stream_.is_operator("]")) stop = expression();
  if (stream_.skip_operator(":") && !stream_.is_operator("]")) step = expression();
  if (stream_.is_operator(",")) stream_.fail("a slice among several indices is not supported");
  stream_.expect_operator("]");
  adopt(*node, std::move(stop));
  adopt(*node, std::move(step));
  return node;
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  ExpressionPtr node = make(ExpressionKind::kCall, stream_.current().line);
  adopt(*node, std::move(callee));
  node->arguments = call_arguments();
  for (const ExpressionPtr& argument : node->arguments.positional) count_depth(*node, argument.get());
  for (const auto& [name, argument] : node->arguments.named) count_depth(*node, argument.get());
  return node;
}

CallArguments ExpressionParser::call_arguments() {
  CallArguments arguments;
  const int line = stream_.current().line;
  const auto ensure = [&](bool allowed) {
    if (!allowed)
      stream_.fail_at(line, "arguments of a call are out of order; expected positional, named, *list, **dict");
  };
  stream_.expect_operator("(");
  for (bool first = true; !stream_.is_operator(")"); first = false) {
    if (!first) stream_.expect_operator(",");
    if (!first && stream_.is_operator(")")) break;
    if (stream_.skip_operator("*")) {
      ensure(!arguments.unpacked_positional && !arguments.unpacked_named);
      arguments.unpacked_positional = expression();
    } else if (stream_.skip_operator("**")) {
      ensure(!arguments.unpacked_named);
      arguments.unpacked_named = expression();
    } else if (stream_.current().kind == TokenKind::kName && stream_.ahead().is_operator("=")) {
      ensure(!arguments.unpacked_named);
      named_argument(arguments);
    } else {
      ensure(!arguments.unpacked_positional && !arguments.unpacked_named && arguments.named.empty());
      arguments.positional.push_back(expression());
    }
  }
  stream_.take();
  return arguments;
}

void ExpressionParser::named_argument(CallArguments& arguments) {
  const Token& token = stream_.take();
  stream_.take();
  if (arguments.named.size() >= kMaxNames) stream_.fail("a call has more than ", kMaxNames, " named arguments");
  for (const auto& [name, argument] : arguments.named) {
    if (name == token.text) stream_.fail_at(token.line, "the argument '", name, "' is given twice in one call");
  }
  arguments.named.emplace_back(token.text, expression());
}

std::string ExpressionParser::dotted_name() {
  std::string name = stream_.expect(TokenKind::kName, "a name").text;
  while (stream_.skip_operator(".")) name += "." + stream_.expect(TokenKind::kName, "a name").text;
  return name;
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr input, bool inline_start) {
  while (inline_start || stream_.is_operator("|")) {
    if (!inline_start) stream_.take();
    inline_start = false;
    ExpressionPtr node = make(ExpressionKind::kFilter, stream_.current().line);
    node->name = dotted_name();
    if (stream_.is_operator("(")) node->arguments = call_arguments();
    for (const ExpressionPtr& argument : node->arguments.positional) count_depth(*node, argument.get());
    for (const auto& [name, argument] : node->arguments.named) count_depth(*node, argument.get());
    adopt(*node, std::move(input));
    input = std::move(node);
  }
  return input;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr input) {
  ExpressionPtr node = make(ExpressionKind::kTest, stream_.take().line);
  const bool negated = stream_.skip_name("not");
  node->name = dotted_name();
  adopt(*node, std::move(input));
  const Token& token = stream_.current();
  const bool is_value =
      token.kind == TokenKind::kString || token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat ||
      token.is_operator("[") || token.is_operator("{") ||
      (token.kind == TokenKind::kName && token.text != "else" && token.text != "or" && token.text != "and");
  if (token.is_operator("(")) {
    node->arguments = call_arguments();
  } else if (is_value) {
    if (token.is_name("is")) stream_.fail("tests cannot be chained: write `a is b and a is c`");
    ExpressionPtr argument = primary();
    node->arguments.positional.push_back(postfix(std::move(argument)));
  }
  for (const ExpressionPtr& argument : node->arguments.positional) count_depth(*node, argument.get());
  if (!negated) return node;
  ExpressionPtr negation = make(ExpressionKind::kNot, node->line);
  adopt(*negation, std::move(node));
  return negation;
}

}  // namespace keel::jinja
