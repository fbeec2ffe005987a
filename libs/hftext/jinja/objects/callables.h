#pragma once

// Values that belong to a template being rendered: scopes, macros, loops.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

struct Statement;

/// The variables of one call of a function; an empty slot is a variable without a value.
struct Scope : Object {
  Scope(Scope* o, int slot_count) : Object(ObjectKind::kScope), outer(o), slots(static_cast<size_t>(slot_count)) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kScope; }
  Scope* outer;
  std::vector<std::optional<Value>> slots;
};

/// What a template may ask of a macro.
struct MacroSignature {
  std::string name;  // empty: a call block's
  std::vector<std::string> parameters;
  bool catches_named = false, catches_positional = false, uses_caller = false;
};

struct Macro : Object {
  Macro(const Statement* n, Scope* s, MacroSignature m)
      : Object(ObjectKind::kMacro), node(n), scope(s), signature(std::move(m)) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kMacro; }
  const Statement* node;
  Scope* scope;  // in which it was defined
  MacroSignature signature;
};

/// The variable `loop`, and the iteration itself.
struct Loop : Object {
  Loop(Runtime& runtime, const Statement* n, Value items, Scope* s, int64_t d)
      : Object(ObjectKind::kLoop), node(n), iterable(items), cursor(runtime, std::move(items)), scope(s), depth(d) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kLoop; }

  /// Moves on to the next item.
  bool next(Value& item);
  /// Looks at the next item without moving on.
  const std::optional<Value>& peek();
  /// Of the whole iteration; reads a generator to its end for that.
  int64_t length(Runtime& runtime);

  const Statement* node;
  Value iterable;
  Cursor cursor;
  Scope* scope;   // around a recursive loop
  int64_t depth;  // of recursion
  int64_t index = -1;
  std::optional<Value> previous, current, ahead;
  std::optional<int64_t> known_length;
  std::optional<std::vector<Value>> last_changed;
};

}  // namespace keel::jinja
