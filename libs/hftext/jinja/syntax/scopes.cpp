#include "libs/hftext/jinja/syntax/scopes.h"

#include <algorithm>
#include <set>

#include "keel/core/error.h"
#include "libs/hftext/jinja/objects/builtins.h"
#include "libs/hftext/jinja/syntax/symbols.h"

namespace keel::jinja {
namespace {

/// A frame whose statements are being visited.
struct Frame {
  Symbols* symbols;
  bool in_condition = false;  // an unknown filter or test fails only when evaluated
};

class Resolver {
 public:
  explicit Resolver(const std::string& location) : location_(location) {}

  void resolve(TemplateTree& tree) {
    FunctionScope function{nullptr, location_};
    Symbols symbols(nullptr, &function);
    visit_frame(symbols, tree.body);
    body(tree.body, {&symbols});
    tree.loads = symbols.variable_loads(function);
    tree.slots = function.size();
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(int line, const Parts&... parts) const {
    keel::fail(ExitCode::kBadInput, location_, ":", line, ": ", parts...);
  }

  VariableRef ref(const std::string& name, int line, const Frame& frame) const {
    const Symbols::Ref* found = frame.symbols->find(name);
    if (found == nullptr) fail(line, "'", name, "' cannot be used here; assign it with {% set %} before the block");
    return make_ref(*frame.symbols->function, *found);
  }

  void body(Body& statements, const Frame& frame) {
    for (StatementPtr& child : statements) statement(*child, frame);
  }

  void arguments(CallArguments& call, const Frame& frame) {
    for (ExpressionPtr& argument : call.positional) expression(argument, frame);
    for (auto& [name, argument] : call.named) expression(argument, frame);
    expression(call.unpacked_positional, frame);
    expression(call.unpacked_named, frame);
  }

  void expression(ExpressionPtr& pointer, const Frame& frame) {
    if (!pointer) return;
    Expression& node = *pointer;
    Frame inner = frame;
    if (node.kind == ExpressionKind::kName || node.kind == ExpressionKind::kNamespaceRef) {
      node.variable = ref(node.name, node.line, frame);
    } else if (node.kind == ExpressionKind::kConditional) {
      inner.in_condition = true;
    } else if (node.kind == ExpressionKind::kFilter && !frame.in_condition && !is_filter(node.name)) {
      fail(node.line, "no filter is called '", node.name, "'");
    } else if (node.kind == ExpressionKind::kTest && !frame.in_condition && !is_test(node.name)) {
      fail(node.line, "no test is called '", node.name, "'");
    }
    for (ExpressionPtr& child : node.children) expression(child, inner);
    arguments(node.arguments, inner);
  }

  void expressions(std::vector<ExpressionPtr>& list, const Frame& frame) {
    for (ExpressionPtr& child : list) expression(child, frame);
  }

  void statement(Statement& node, const Frame& frame) {
    switch (node.kind) {
      case StatementKind::kOutput:
        return expressions(node.expressions, frame);
      case StatementKind::kFor:
        return for_loop(node, frame);
      case StatementKind::kIf:
        return condition(node, {frame.symbols, true});
      case StatementKind::kSet:
        expressions(node.expressions, frame);
        return expression(node.target, frame);
      case StatementKind::kSetBlock:
      case StatementKind::kFilterBlock:
      case StatementKind::kWith:
        return block(node, frame);
      case StatementKind::kMacro:
        function(node, frame);
        node.variable = ref(node.name, node.line, frame);
        return;
      case StatementKind::kCallBlock:
        function(node, frame);
        return expression(node.target, frame);
      case StatementKind::kGeneration:
        return function(node, frame);
      case StatementKind::kBreak:
      case StatementKind::kContinue:
        return;
    }
  }

  void condition(Statement& node, const Frame& frame) {
    expressions(node.expressions, frame);
    body(node.body, frame);
    for (StatementPtr& elif : node.elifs) condition(*elif, frame);
    body(node.else_body, frame);
  }

  void block(Statement& node, const Frame& frame) {
    Symbols symbols(frame.symbols, frame.symbols->function);
    const Frame inner{&symbols};
    for (const ExpressionPtr& target : node.targets) declare_targets(symbols, *target);
    visit_frame(symbols, node.body);
    if (node.kind == StatementKind::kFilterBlock) visit_loads(symbols, node.expressions);
    // The values of {% with %} belong to the frame around it, the filters of the other two to their own.
    expressions(node.expressions, node.kind == StatementKind::kWith ? frame : inner);
    for (ExpressionPtr& target : node.targets) expression(target, inner);
    expression(node.target, frame);
    body(node.body, inner);
    node.loads = symbols.variable_loads(*symbols.function);
  }

  void function(Statement& node, const Frame& frame) {
    FunctionScope scope{frame.symbols->function, location_};
    Symbols symbols(frame.symbols, &scope);
    const auto analyze = [&] {
      for (const std::string& parameter : node.parameters) symbols.declare(parameter);
      visit_loads(symbols, node.expressions);
      visit_frame(symbols, node.body);
    };
    analyze();
    const std::set<std::string> used = undeclared(node.body, {"caller", "kwargs", "varargs"});
    const auto has_parameter = [&](const std::string& name) {
      return std::find(node.parameters.begin(), node.parameters.end(), name) != node.parameters.end();
    };
    const auto special = [&](const std::string& name) {
      return used.contains(name) && !has_parameter(name) ? symbols.declare(name).slot : -1;
    };
    const auto explicit_caller = std::find(node.parameters.begin(), node.parameters.end(), "caller");
    if (used.contains("caller") && node.parameters.end() - explicit_caller > std::ssize(node.expressions)) {
      fail(node.line, "the parameter 'caller' of a macro needs a default, or must be left out");
    }
    node.caller_slot = special("caller");
    node.kwargs_slot = special("kwargs");
    node.varargs_slot = special("varargs");
    analyze();
    for (const std::string& parameter : node.parameters) {
      node.parameter_slots.push_back(symbols.find(parameter)->slot);
    }
    const Frame inner{&symbols};
    expressions(node.expressions, inner);
    body(node.body, inner);
    node.loads = symbols.variable_loads(scope);
    node.slots = scope.size();
  }

  void for_loop(Statement& node, const Frame& frame) {
    if (const int line = find_loop_assignment(node); line > 0) {
      fail(line, "'loop' is the loop's own variable and cannot be assigned inside of it");
    }
    FunctionScope loop_scope{frame.symbols->function, location_};
    FunctionScope* scope = node.recursive ? &loop_scope : frame.symbols->function;
    Symbols body_symbols(frame.symbols, scope), else_symbols(frame.symbols, scope);
    node.loop_slot = body_symbols.declare("loop").slot;
    declare_targets(body_symbols, *node.target);
    visit_frame(body_symbols, node.body);
    visit_frame(else_symbols, node.else_body);
    if (node.test) loop_test(node, frame);
    expressions(node.expressions, frame);
    expression(node.target, {&body_symbols});
    body(node.body, {&body_symbols});
    body(node.else_body, {&else_symbols});
    node.loads = body_symbols.variable_loads(*scope);
    node.else_loads = else_symbols.variable_loads(*scope);
    node.slots = loop_scope.size();
  }

  void loop_test(Statement& node, const Frame& frame) {
    FunctionScope scope{frame.symbols->function, location_};
    Symbols symbols(frame.symbols, &scope);
    declare_targets(symbols, *node.target);
    visit_loads(symbols, *node.test);
    node.test_target = copy_of_target(*node.target);
    const Frame inner{&symbols};
    expression(node.test_target, inner);
    expression(node.test, inner);
    node.test_loads = symbols.variable_loads(scope);
    node.test_slots = scope.size();
  }

  static ExpressionPtr copy_of_target(const Expression& target) {
    auto copy = std::make_unique<Expression>();
    copy->kind = target.kind;
    copy->line = target.line;
    copy->name = target.name;
    for (const ExpressionPtr& child : target.children) copy->children.push_back(copy_of_target(*child));
    return copy;
  }

  const std::string& location_;
};

void add_context_names(const std::vector<VariableLoad>& loads, std::set<std::string>& names) {
  for (const VariableLoad& load : loads)
    if (load.from == VariableLoad::From::kContext) names.insert(load.name);
}

void add_context_names(const Body& body, std::set<std::string>& names) {
  for (const StatementPtr& child : body) {
    for (const auto* loads : {&child->loads, &child->else_loads, &child->test_loads}) add_context_names(*loads, names);
    for (const Body* inner : {&child->body, &child->else_body, &child->elifs}) add_context_names(*inner, names);
  }
}

}  // namespace

void resolve_variables(TemplateTree& tree, const std::string& location) { Resolver(location).resolve(tree); }

std::set<std::string> context_names(const TemplateTree& tree) {
  std::set<std::string> names;
  add_context_names(tree.loads, names);
  add_context_names(tree.body, names);
  return names;
}

}  // namespace keel::jinja
