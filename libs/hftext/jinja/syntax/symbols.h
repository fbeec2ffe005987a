#pragma once

// Symbol table of one frame, filled before its variables are resolved. See scopes.h.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/error.h"
#include "libs/hftext/jinja/objects/template_limits.h"
#include "libs/hftext/jinja/syntax/ast.h"

namespace keel::jinja {

/// The slots of one function. A variable is identified by its name and the nesting level of its frame.
struct FunctionScope {
  FunctionScope* outer;
  const std::string& location;  // of the template, for errors
  std::map<std::pair<int, std::string>, int> slots{};
  int slot(int level, const std::string& name) {
    if (slots.size() >= kMaxNames) {
      fail(ExitCode::kBadInput, location, ": the template uses more than ", kMaxNames,
           " variables; use a list or a dict");
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

  /// Resolves a name in this frame or an outer one; null if no frame has it.
  const Ref* find(const std::string& name) const;
  void load(const std::string& name);
  void store(const std::string& name);
  /// Declares a name that is not loaded from outside: a parameter or loop target.
  Ref declare(const std::string& name);
  /// Merges the symbols of the branches of a condition; each started as a copy of this.
  void merge(const std::vector<Symbols>& branches);

  std::vector<VariableLoad> variable_loads(const FunctionScope& scope) const;

  FunctionScope* function;

 private:
  enum class Load { kParameter, kContext, kOuter, kNothing };
  struct LoadInfo {
    Load from;
    Ref outer;
  };
  void define(const std::string& name, LoadInfo load);
  const Ref* find_outside(const std::string& name) const;

  const Symbols* parent_;
  int level_;
  std::map<std::string, Ref> refs_;
  std::map<std::string, LoadInfo> loads_;
  std::set<std::string> stores_;
};

/// Creates the reference to a variable from a function.
VariableRef make_ref(const FunctionScope& from, const Symbols::Ref& variable);

/// Records the names that statements of one frame read and assign, in order, without inner frames.
void visit_frame(Symbols& symbols, const Body& body);
void visit_loads(Symbols& symbols, const Expression& expression);
void visit_loads(Symbols& symbols, const std::vector<ExpressionPtr>& expressions);
void declare_targets(Symbols& symbols, const Expression& target);

/// Returns those `names` that statements, including inner frames, read before assigning.
std::set<std::string> undeclared(const Body& body, std::set<std::string> names);

/// The line of an assignment to `loop` in a loop; 0 if there is none.
int find_loop_assignment(const Statement& loop);

}  // namespace keel::jinja
