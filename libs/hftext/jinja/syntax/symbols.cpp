#include "libs/hftext/jinja/syntax/symbols.h"

#include <functional>

namespace keel::jinja {
namespace {

/// Calls `visit` for every expression in a tree, the root first.
void for_each(const Expression* node, const std::function<void(const Expression&)>& visit) {
  if (node == nullptr) return;
  visit(*node);
  for (const ExpressionPtr& child : node->children) for_each(child.get(), visit);
  for (const ExpressionPtr& argument : node->arguments.positional) for_each(argument.get(), visit);
  for (const auto& [name, argument] : node->arguments.named) for_each(argument.get(), visit);
  for_each(node->arguments.unpacked_positional.get(), visit);
  for_each(node->arguments.unpacked_named.get(), visit);
}

void store_targets(Symbols& symbols, const Expression& target) {
  if (target.kind == ExpressionKind::kName) symbols.store(target.name);
  if (target.kind == ExpressionKind::kNamespaceRef) symbols.load(target.name);
  for (const ExpressionPtr& child : target.children) store_targets(symbols, *child);
}

void visit_condition(Symbols& symbols, const Statement& node);

void visit_statement(Symbols& symbols, const Statement& node) {
  switch (node.kind) {
    case StatementKind::kSet:
      visit_loads(symbols, node.expressions);
      return store_targets(symbols, *node.target);
    case StatementKind::kSetBlock:
      return store_targets(symbols, *node.target);
    case StatementKind::kMacro:
      return symbols.store(node.name);
    case StatementKind::kCallBlock:
      return visit_loads(symbols, *node.target);
    case StatementKind::kIf:
      return visit_condition(symbols, node);
    case StatementKind::kOutput:
    case StatementKind::kFor:
    case StatementKind::kFilterBlock:
    case StatementKind::kWith:
      return visit_loads(symbols, node.expressions);
    case StatementKind::kGeneration:
    case StatementKind::kBreak:
    case StatementKind::kContinue:
      return;
  }
}

void visit_condition(Symbols& symbols, const Statement& node) {
  visit_loads(symbols, node.expressions);
  std::vector<Symbols> branches;  // without empty branches, which add nothing
  if (!node.body.empty()) visit_frame(branches.emplace_back(symbols), node.body);
  if (!node.elifs.empty()) {
    Symbols& branch = branches.emplace_back(symbols);
    for (const StatementPtr& elif : node.elifs) visit_condition(branch, *elif);
  }
  if (!node.else_body.empty()) visit_frame(branches.emplace_back(symbols), node.else_body);
  symbols.merge(branches);
}

/// Visits statements and their children in template order.
class NameFinder {
 public:
  explicit NameFinder(std::set<std::string> names) : names_(std::move(names)) {}

  void body(const Body& statements) {
    for (const StatementPtr& child : statements) statement(*child);
  }
  std::set<std::string> found;

 private:
  void reads(const Expression* expression) {
    for_each(expression, [&](const Expression& node) {
      if (node.kind == ExpressionKind::kName && names_.contains(node.name)) found.insert(node.name);
    });
  }
  void assigns(const Expression* target) {
    for_each(target, [&](const Expression& node) {
      if (node.kind == ExpressionKind::kName) names_.erase(node.name);
    });
  }

  void statement(const Statement& node) {
    if (node.kind == StatementKind::kCallBlock) {
      reads(node.target.get());
    } else {
      assigns(node.target.get());
    }
    for (const ExpressionPtr& target : node.targets) assigns(target.get());
    if (node.kind == StatementKind::kMacro || node.kind == StatementKind::kCallBlock) {
      for (const std::string& parameter : node.parameters) names_.erase(parameter);
    }
    const bool body_first = node.kind == StatementKind::kFilterBlock;
    if (body_first) body(node.body);
    for (const ExpressionPtr& expression : node.expressions) reads(expression.get());
    if (!body_first) body(node.body);
    for (const StatementPtr& elif : node.elifs) statement(*elif);
    body(node.else_body);
    reads(node.test.get());
  }

  std::set<std::string> names_;
};

int line_of_loop_target(const Expression* target) {
  int line = 0;
  for_each(target, [&](const Expression& node) {
    if (line == 0 && node.kind == ExpressionKind::kName && node.name == "loop") line = node.line;
  });
  return line;
}

int find_loop_assignment(const Body& body) {
  for (const StatementPtr& child : body) {
    const bool assigns = child->kind == StatementKind::kSet || child->kind == StatementKind::kSetBlock;
    if (const int line = assigns ? line_of_loop_target(child->target.get()) : find_loop_assignment(*child); line > 0) {
      return line;
    }
    if (const int line = assigns ? find_loop_assignment(child->body) : 0; line > 0) return line;
  }
  return 0;
}

}  // namespace

const Symbols::Ref* Symbols::find(const std::string& name) const {
  const auto found = refs_.find(name);
  return found != refs_.end() ? &found->second : find_outside(name);
}

const Symbols::Ref* Symbols::find_outside(const std::string& name) const {
  return parent_ == nullptr ? nullptr : parent_->find(name);
}

void Symbols::define(const std::string& name, LoadInfo load) {
  refs_[name] = {function, function->slot(level_, name)};
  loads_[name] = load;
}

void Symbols::load(const std::string& name) {
  if (find(name) == nullptr) define(name, {Load::kContext, {}});
}

void Symbols::store(const std::string& name) {
  stores_.insert(name);
  if (refs_.contains(name)) return;
  const Ref* outer = find_outside(name);
  define(name, outer != nullptr ? LoadInfo{Load::kOuter, *outer} : LoadInfo{Load::kNothing, {}});
}

Symbols::Ref Symbols::declare(const std::string& name) {
  stores_.insert(name);
  define(name, {Load::kParameter, {}});
  return refs_[name];
}

void Symbols::merge(const std::vector<Symbols>& branches) {
  std::set<std::string> stored;
  for (const Symbols& branch : branches) stored.insert(branch.stores_.begin(), branch.stores_.end());
  for (const std::string& name : stores_) stored.erase(name);
  for (const Symbols& branch : branches) {
    for (const auto& [name, ref] : branch.refs_) refs_[name] = ref;
    for (const auto& [name, load] : branch.loads_) loads_[name] = load;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  // A name that only some branches assign keeps its outer value otherwise.
  for (const std::string& name : stored) {
    const Ref* outer = find_outside(name);
    loads_[name] = outer != nullptr ? LoadInfo{Load::kOuter, *outer} : LoadInfo{Load::kContext, {}};
  }
}

std::vector<VariableLoad> Symbols::variable_loads(const FunctionScope& scope) const {
  std::vector<VariableLoad> result;
  for (const auto& [name, load] : loads_) {
    if (load.from == Load::kParameter) continue;
    VariableLoad row{refs_.at(name).slot, VariableLoad::From::kNothing, name, {}};
    if (load.from == Load::kContext) row.from = VariableLoad::From::kContext;
    if (load.from == Load::kOuter) {
      row.from = VariableLoad::From::kOuter;
      row.outer = make_ref(scope, load.outer);
    }
    result.push_back(std::move(row));
  }
  return result;
}

VariableRef make_ref(const FunctionScope& from, const Symbols::Ref& variable) {
  int levels_up = 0;
  for (const FunctionScope* scope = &from; scope != variable.function; scope = scope->outer) ++levels_up;
  return {levels_up, variable.slot};
}

void visit_frame(Symbols& symbols, const Body& body) {
  for (const StatementPtr& child : body) visit_statement(symbols, *child);
}

void visit_loads(Symbols& symbols, const Expression& expression) {
  for_each(&expression, [&](const Expression& node) {
    if (node.kind == ExpressionKind::kName) symbols.load(node.name);
  });
}

void visit_loads(Symbols& symbols, const std::vector<ExpressionPtr>& expressions) {
  for (const ExpressionPtr& expression : expressions) {
    if (expression) visit_loads(symbols, *expression);
  }
}

void declare_targets(Symbols& symbols, const Expression& target) {
  if (target.kind == ExpressionKind::kName) symbols.declare(target.name);
  for (const ExpressionPtr& child : target.children) declare_targets(symbols, *child);
}

std::set<std::string> undeclared(const Body& body, std::set<std::string> names) {
  NameFinder finder(std::move(names));
  finder.body(body);
  return std::move(finder.found);
}

int find_loop_assignment(const Statement& node) {
  // A loop target may not be called loop; targets of {% with %} may.
  if (node.kind == StatementKind::kFor) {
    if (const int line = line_of_loop_target(node.target.get()); line > 0) return line;
  }
  for (const Body* body : {&node.body, &node.elifs, &node.else_body}) {
    if (const int line = find_loop_assignment(*body); line > 0) return line;
  }
  return 0;
}

}  // namespace keel::jinja
