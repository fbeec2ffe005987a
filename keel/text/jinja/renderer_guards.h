#pragma once

#include "keel/text/jinja/renderer.h"

namespace keel::jinja {

/// While it lives, what is written goes into its text.
class Capture {
 public:
  explicit Capture(Renderer& renderer) : renderer_(renderer), before_(renderer.output_) { renderer.output_ = &text; }
  ~Capture() { renderer_.output_ = before_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  TracedText text;

 private:
  Renderer& renderer_;
  TracedText* before_;
};

/// While it lives, variables are those of `scope`.
class InScope {
 public:
  InScope(Renderer& renderer, Scope* scope) : renderer_(renderer), before_(renderer.scope_) { renderer.scope_ = scope; }
  ~InScope() { renderer_.scope_ = before_; }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Renderer& renderer_;
  Scope* before_;
};

}  // namespace keel::jinja
