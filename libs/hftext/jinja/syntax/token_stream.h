#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/error.h"
#include "libs/hftext/jinja/objects/template_limits.h"
#include "libs/hftext/jinja/syntax/lexer.h"

namespace keel::jinja {

/// Token sequence with the lookahead functions of the parsers.
class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, const std::string& location)
      : tokens_(std::move(tokens)), location_(location) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  /// Returns the current token and advances.
  const Token& take() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool at_end() const { return current().kind == TokenKind::kEnd; }
  bool is_operator(std::string_view symbol) const { return current().is_operator(symbol); }
  bool is_name(std::string_view name) const { return current().is_name(name); }
  /// Takes the operator if it is current; returns whether it was.
  bool skip_operator(std::string_view symbol) {
    const bool found = is_operator(symbol);
    if (found) take();
    return found;
  }
  bool skip_name(std::string_view name) {
    const bool found = is_name(name);
    if (found) take();
    return found;
  }

  const Token& expect(TokenKind kind, std::string_view expected) {
    if (current().kind != kind) fail("expected ", expected, ", got ", describe(current()));
    return take();
  }
  void expect_operator(std::string_view symbol) {
    if (!skip_operator(symbol)) fail("expected '", symbol, "', got ", describe(current()));
  }

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    fail_at(current().line, parts...);
  }
  template <class... Parts>
  [[noreturn]] void fail_at(int line, const Parts&... parts) const {
    keel::fail(ExitCode::kBadInput, location_, ":", line, ": ", parts...);
  }

  static std::string describe(const Token& token) {
    switch (token.kind) {
      case TokenKind::kData:
        return "text";
      case TokenKind::kBlockBegin:
        return "'{%'";
      case TokenKind::kBlockEnd:
        return "'%}'";
      case TokenKind::kVariableBegin:
        return "'{{'";
      case TokenKind::kVariableEnd:
        return "'}}'";
      case TokenKind::kString:
        return "a string";
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return "a number";
      case TokenKind::kEnd:
        return "the end of the template";
      default:
        return "'" + token.text + "'";
    }
  }

  /// Counts nesting while a recursive construct is parsed.
  class NestingGuard {
   public:
    explicit NestingGuard(TokenStream& stream) : stream_(stream) {
      if (++stream_.depth_ > kMaxTemplateNesting) {
        stream_.fail("the template is nested more than ", kMaxTemplateNesting, " deep; simplify it");
      }
    }
    ~NestingGuard() { --stream_.depth_; }
    NestingGuard(const NestingGuard&) = delete;
    NestingGuard& operator=(const NestingGuard&) = delete;

   private:
    TokenStream& stream_;
  };

 private:
  std::vector<Token> tokens_;
  const std::string& location_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace keel::jinja
