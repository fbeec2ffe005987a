#include "libs/hftext/jinja/syntax/parser.h"

#include <algorithm>
#include <initializer_list>

#include "keel/core/untrusted_text.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/syntax/expression_parser.h"
#include "libs/hftext/jinja/syntax/lexer.h"
#include "libs/hftext/jinja/syntax/scopes.h"
#include "libs/hftext/jinja/syntax/token_stream.h"

namespace keel::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& location)
      : stream_(std::move(tokens), location), expressions_(stream_) {}

  Body template_body() { return statements({}); }

 private:
  StatementPtr make(StatementKind kind, int line) const {
    auto node = std::make_unique<Statement>();
    node->kind = kind;
    node->line = line;
    return node;
  }

  bool at_one_of(Names names) const {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return stream_.is_name(name); });
  }

  /// Parses statements up to a tag whose name is in `ends`, or to the end of the template if `ends` is empty.
  Body statements(Names ends) {
    const TokenStream::NestingGuard guard(stream_);
    Body body;
    StatementPtr output;
    const auto flush = [&] {
      if (output) body.push_back(std::move(output));
    };
    const auto print = [&](ExpressionPtr expression) {
      if (!output) output = make(StatementKind::kOutput, expression->line);
      output->expressions.push_back(std::move(expression));
    };
    while (!stream_.at_end()) {
      const Token& token = stream_.take();
      if (token.kind == TokenKind::kData) {
        auto text = std::make_unique<Expression>();
        text->kind = ExpressionKind::kConstant;
        text->line = token.line;
        text->constant = std::make_shared<const Text>(TracedText(token.text), false, nullptr);
        print(std::move(text));
      } else if (token.kind == TokenKind::kVariableBegin) {
        print(expressions_.tuple());
        stream_.expect(TokenKind::kVariableEnd, "'}}'");
      } else {
        flush();
        if (at_one_of(ends)) return body;
        body.push_back(statement(ends));
        stream_.expect(TokenKind::kBlockEnd, "'%}'");
      }
    }
    if (ends.size() > 0) stream_.fail("the template ends where {% ", *(ends.end() - 1), " %} was expected");
    flush();
    return body;
  }

  /// Parses the body after a tag; the end tag becomes current.
  Body body_until(Names ends) {
    stream_.skip_operator(":");
    stream_.expect(TokenKind::kBlockEnd, "'%}'");
    return statements(ends);
  }
  Body body_through(std::string_view end) {
    Body body = body_until({end});
    stream_.take();
    return body;
  }

  StatementPtr statement(Names ends) {
    const Token& tag = stream_.current();
    if (tag.kind != TokenKind::kName) {
      stream_.fail("expected the name of a tag after '{%', got ", TokenStream::describe(tag));
    }
    stream_.take();
    if (tag.text == "for") return for_loop(tag.line);
    if (tag.text == "if") return condition(tag.line);
    if (tag.text == "set") return set(tag.line);
    if (tag.text == "macro") return macro(tag.line);
    if (tag.text == "call") return call_block(tag.line);
    if (tag.text == "generation") return generation(tag.line);
    if (tag.text == "filter") return filter_block(tag.line);
    if (tag.text == "with") return with(tag.line);
    if (tag.text == "print") return print(tag.line);
    if (tag.text == "break" || tag.text == "continue") return loop_control(tag);
    fail_unknown_tag(tag, ends);
  }

  [[noreturn]] void fail_unknown_tag(const Token& tag, Names ends) const {
    for (std::string_view other : {"include", "import", "from", "extends", "block", "autoescape"}) {
      if (tag.text == other) {
        stream_.fail_at(tag.line, "{% ", other,
                        " %} is not supported: a chat template is one file; insert the text here");
      }
    }
    if (ends.size() == 0) {
      stream_.fail_at(tag.line, "unknown tag '", tag.text,
                      "'; known are for, if, set, macro, call, filter, with, print, break, continue, generation, raw");
    }
    stream_.fail_at(tag.line, "unknown or misplaced tag '", tag.text, "'; {% ", *(ends.end() - 1), " %} was expected");
  }

  StatementPtr for_loop(int line) {
    StatementPtr node = make(StatementKind::kFor, line);
    const TokenStream& stream = stream_;
    node->target = expressions_.target(false, "in");
    if (!stream_.skip_name("in")) stream.fail("expected 'in', got ", TokenStream::describe(stream.current()));
    node->expressions.push_back(expressions_.tuple(false, "recursive"));
    if (stream_.skip_name("if")) node->test = expressions_.expression();
    node->recursive = stream_.skip_name("recursive");
    const int outer = loops_;
    ++loops_;
    node->body = body_until({"endfor", "else"});
    loops_ = node->recursive ? 0 : outer;  // a recursive loop is a separate function
    if (stream_.take().text == "else") node->else_body = body_through("endfor");
    loops_ = outer;
    return node;
  }

  StatementPtr condition(int line) {
    StatementPtr node = make(StatementKind::kIf, line);
    node->expressions.push_back(expressions_.tuple(false));
    node->body = body_until({"elif", "else", "endif"});
    const Token* token = &stream_.take();
    while (token->text == "elif") {
      StatementPtr elif = make(StatementKind::kIf, stream_.current().line);
      elif->expressions.push_back(expressions_.tuple(false));
      elif->body = body_until({"elif", "else", "endif"});
      node->elifs.push_back(std::move(elif));
      token = &stream_.take();
    }
    if (token->text == "else") node->else_body = body_through("endif");
    return node;
  }

  StatementPtr set(int line) {
    ExpressionPtr target = expressions_.target(true);
    StatementPtr node = make(StatementKind::kSet, line);
    if (stream_.skip_operator("=")) {
      node->expressions.push_back(expressions_.tuple());
    } else {
      node->kind = StatementKind::kSetBlock;
      node->expressions.push_back(expressions_.filters(nullptr, false));
      node->body = body_through("endset");
    }
    node->target = std::move(target);
    return node;
  }

  void signature(Statement& node) {
    stream_.expect_operator("(");
    while (!stream_.is_operator(")")) {
      if (!node.parameters.empty()) stream_.expect_operator(",");
      const Token& name = stream_.expect(TokenKind::kName, "the name of a parameter");
      if (node.parameters.size() >= kMaxNames) stream_.fail("a macro has more than ", kMaxNames, " parameters");
      if (std::find(node.parameters.begin(), node.parameters.end(), name.text) != node.parameters.end()) {
        stream_.fail_at(name.line, "the parameter '", name.text, "' is given twice");
      }
      node.parameters.push_back(name.text);
      if (stream_.skip_operator("=")) {
        node.expressions.push_back(expressions_.expression());
      } else if (!node.expressions.empty()) {
        stream_.fail("the parameter '", name.text, "' needs a default, because an earlier one has it");
      }
    }
    stream_.take();
  }

  /// Parses the body of a macro or call block. It is a function, so it cannot break out of an enclosing loop.
  Body function_body(std::string_view end) {
    const int outer = loops_;
    loops_ = 0;
    Body body = body_through(end);
    loops_ = outer;
    return body;
  }

  StatementPtr macro(int line) {
    StatementPtr node = make(StatementKind::kMacro, line);
    node->name = stream_.expect(TokenKind::kName, "the name of the macro").text;
    signature(*node);
    node->body = function_body("endmacro");
    return node;
  }

  StatementPtr call_block(int line) {
    StatementPtr node = make(StatementKind::kCallBlock, line);
    if (stream_.is_operator("(")) signature(*node);
    node->target = expressions_.expression();
    if (node->target->kind != ExpressionKind::kCall)
      stream_.fail_at(line, "{% call %} needs a call: {% call name() %}");
    node->body = function_body("endcall");
    return node;
  }

  StatementPtr generation(int line) {
    StatementPtr node = make(StatementKind::kGeneration, line);
    node->body = function_body("endgeneration");
    return node;
  }

  StatementPtr filter_block(int line) {
    StatementPtr node = make(StatementKind::kFilterBlock, line);
    node->expressions.push_back(expressions_.filters(nullptr, true));
    node->body = body_through("endfilter");
    return node;
  }

  StatementPtr with(int line) {
    StatementPtr node = make(StatementKind::kWith, line);
    while (stream_.current().kind != TokenKind::kBlockEnd) {
      if (!node->targets.empty()) stream_.expect_operator(",");
      node->targets.push_back(expressions_.target(false));
      stream_.expect_operator("=");
      node->expressions.push_back(expressions_.expression());
    }
    node->body = body_through("endwith");
    return node;
  }

  StatementPtr print(int line) {
    StatementPtr node = make(StatementKind::kOutput, line);
    while (stream_.current().kind != TokenKind::kBlockEnd) {
      if (!node->expressions.empty()) stream_.expect_operator(",");
      node->expressions.push_back(expressions_.expression());
    }
    return node;
  }

  StatementPtr loop_control(const Token& tag) {
    if (loops_ == 0) stream_.fail_at(tag.line, "{% ", tag.text, " %} is outside of a loop");
    return make(tag.text == "break" ? StatementKind::kBreak : StatementKind::kContinue, tag.line);
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int loops_ = 0;  // nesting of loops in the current function
};

}  // namespace

TemplateTree parse_template(std::string source, const std::string& location) {
  if (source.size() > kMaxTemplateBytes) {
    fail(ExitCode::kBadInput, location, ": the template has ", source.size(), " bytes; at most ", kMaxTemplateBytes,
         " are read");
  }
  if (const std::optional<size_t> bad = first_bad_utf8(source)) {
    fail(ExitCode::kBadInput, location, ": the template is not valid UTF-8 at byte ", *bad, "; save it as UTF-8");
  }
  TemplateTree tree;
  tree.body = Parser(tokenize(std::move(source), location), location).template_body();
  resolve_variables(tree, location);
  return tree;
}

}  // namespace keel::jinja
