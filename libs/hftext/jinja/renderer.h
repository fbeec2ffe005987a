#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libs/hftext/jinja/objects/builtins.h"
#include "libs/hftext/jinja/objects/callables.h"
#include "libs/hftext/jinja/objects/runtime.h"
#include "libs/hftext/jinja/syntax/ast.h"

namespace keel::jinja {

using Variables = std::unordered_map<std::string, Value>;

/// Evaluates the tree of a template and renders its text.
class Renderer {
 public:
  Renderer(Runtime& runtime, const TemplateTree& tree, Variables variables);

  TracedText render();
  /// Byte ranges [begin, end) of the text that {% generation %} blocks wrote.
  std::vector<std::pair<size_t, size_t>> generation_spans(const std::string& text) const;

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // Statements.
  Flow run(const Body& body);
  Flow run(const Statement& node);
  Flow run_if(const Statement& node);
  Flow run_for(const Statement& node);
  Flow run_loop(Loop& loop);
  Flow run_block(const Statement& node);
  void run_output(const Statement& node);
  void run_set(const Statement& node);
  void run_call_block(const Statement& node);
  void run_generation(const Statement& node);
  Value loop_items(const Statement& node, const Value& items);
  TracedText render_recursive_loop(const Statement& node, Value items, Scope* outer, int64_t depth);
  void enter(const std::vector<VariableLoad>& loads);
  void write(const Value& value);
  void write(const TracedText& text);

  // Variables.
  std::optional<Value>& slot(const VariableRef& variable);
  void assign(const Expression& target, const Value& value);
  void check_namespaces(const Expression& target);
  Value value_of_target(const Expression& target);

  // Expressions.
  Value evaluate(const Expression& node);
  Value evaluate_name(const Expression& node);
  Value evaluate_sequence(const Expression& node);
  Value evaluate_dict(const Expression& node);
  bool evaluate_comparison(const Expression& node);
  Value evaluate_concat(const Expression& node);
  Value evaluate_conditional(const Expression& node);
  Value evaluate_slice(const Expression& node);
  Value evaluate_call(const Expression& node, const Value* caller = nullptr);
  Value evaluate_filter(const Expression& node, const Value* input);
  Arguments evaluate_arguments(const CallArguments& call);

  // Calls.
  Value call(const Value& callee, Arguments arguments);
  Macro* make_macro(const Statement& node);
  Value call_macro(const Macro& macro, Arguments arguments);
  void bind_macro(const Macro& macro, Arguments arguments);

  Runtime& runtime_;
  const TemplateTree& tree_;
  Variables variables_;
  Scope* scope_ = nullptr;
  TracedText root_;  // output of the template
  TracedText* output_ = &root_;
  std::vector<std::pair<size_t, size_t>> spans_;       // in code points
  size_t counted_bytes_ = 0, counted_characters_ = 0;  // of root_, up to the last span

  friend class Capture;
  friend class ScopeGuard;
};

/// Redirects output into its own text during its lifetime.
class Capture {
 public:
  explicit Capture(Renderer& renderer) : renderer_(renderer), previous_(renderer.output_) { renderer.output_ = &text; }
  ~Capture() { renderer_.output_ = previous_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  TracedText text;

 private:
  Renderer& renderer_;
  TracedText* previous_;
};

/// Makes `scope` the current scope during its lifetime.
class ScopeGuard {
 public:
  ScopeGuard(Renderer& renderer, Scope* scope) : renderer_(renderer), previous_(renderer.scope_) {
    renderer.scope_ = scope;
  }
  ~ScopeGuard() { renderer_.scope_ = previous_; }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Renderer& renderer_;
  Scope* previous_;
};

}  // namespace keel::jinja
