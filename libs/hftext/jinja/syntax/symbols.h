#pragma once

// The names of one frame of a template, gathered before its statements are placed. See scopes.h.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/error.h"
#include "libs/hftext/jinja/objects/template_limits.h"
#include "libs/hftext/jinja/syntax/ast.h"

namespace keel::jinja {

/// The slots of one function: a variable is a name at a level of nested frames.
struct FunctionScope {
  FunctionScope* outer;
  const std::string& place;  // of the template, for errors
  std::map<std::pair<int, std::string>, int> slots{};
  int slot(int level, const std::string& name) {
    if (slots.size() >= kMaxNames) {
      fail(ExitCode::kBadInput, place, ": the template uses more than ", kMaxNames, " variables; use a list or a dict");
    }
    return slots.emplace(std::pair(level, name), static_cast<int>(slots.size())).first->second;
  }
  int size() const { return static_cast<int>(slots.size()); }
};

class Symbols {
 public:
  struct Ref {
    const FunctionScope* function;
    int slot;
  };

  Symbols(const Symbols* parent, FunctionScope* f)
      : function(f), parent_(parent), level_(parent == nullptr ? 0 : parent->level_ + 1) {}

  /// The variable a name means, here or further out; null when no frame has seen it.
  const Ref* find(const std::string& name) const;
  void load(const std::string& name);
  void store(const std::string& name);
  /// A name that gets its value by other means than a load: a parameter, a loop's target.
  Ref declare(const std::string& name);
  /// Takes in what the branches of a condition saw, each a copy of this one.
  void merge(const std::vector<Symbols>& branches);

  std::vector<VariableLoad> variable_loads(const FunctionScope& scope) const;

  FunctionScope* function;

 private:
  enum class Load { kParameter, kContext, kOuter, kNothing };
  struct LoadOf {
    Load from;
    Ref outer;
  };
  void define(const std::string& name, LoadOf load);
  const Ref* find_outside(const std::string& name) const;

  const Symbols* parent_;
  int level_;
  std::map<std::string, Ref> refs_;
  std::map<std::string, LoadOf> loads_;
  std::set<std::string> stores_;
};

/// How a variable is reached from a function.
VariableRef reach(const FunctionScope& from, const Symbols::Ref& variable);

/// Enters the names that statements of one frame read and assign, in order; inner frames are not entered.
void visit_frame(Symbols& symbols, const Body& body);
void visit_loads(Symbols& symbols, const Expression& expression);
void visit_loads(Symbols& symbols, const std::vector<ExpressionPtr>& expressions);
void declare_targets(Symbols& symbols, const Expression& target);

/// Those of `names` that statements, inner frames included, read before they assign them.
std::set<std::string> undeclared(const Body& body, std::set<std::string> names);

/// The line of an assignment to `loop` in a loop; 0 when there is none.
int line_of_assigned_loop(const Statement& loop);

}  // namespace keel::jinja
