#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/error.h"
#include "libs/hftext/jinja/objects/template_limits.h"
#include "libs/hftext/jinja/syntax/lexer.h"

namespace keel::jinja {

/// Tokens one after the other, with the questions a parser asks.
class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, const std::string& place) : tokens_(std::move(tokens)), place_(place) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  /// The current token; the next one becomes current.
  const Token& take() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool at_end() const { return current().kind == TokenKind::kEnd; }
  bool is_operator(std::string_view symbol) const { return current().is_operator(symbol); }
  bool is_name(std::string_view name) const { return current().is_name(name); }
  bool skip_operator(std::string_view symbol) { return is_operator(symbol) && (take(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (take(), true); }

  const Token& expect(TokenKind kind, std::string_view wanted) {
    if (current().kind != kind) fail("expected ", wanted, ", got ", describe(current()));
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
    keel::fail(ExitCode::kBadInput, place_, ":", line, ": ", parts...);
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

  /// Held while a part that may contain itself is parsed.
  class Deeper {
   public:
    explicit Deeper(TokenStream& stream) : stream_(stream) {
      if (++stream_.depth_ > kMaxTemplateNesting) {
        stream_.fail("the template is nested more than ", kMaxTemplateNesting, " deep; simplify it");
      }
    }
    ~Deeper() { --stream_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    TokenStream& stream_;
  };

 private:
  std::vector<Token> tokens_;
  const std::string& place_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace keel::jinja
