#pragma once

// Runtime objects: scopes, macros, loops.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libs/hftext/jinja/objects/value.h"

namespace keel::jinja {

struct Statement;

/// Variables of one function call; an empty slot has no value.
struct Scope : Object {
  Scope(Scope* o, int slot_count) : Object(ObjectKind::kScope), outer(o), slots(static_cast<size_t>(slot_count)) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kScope; }
  Scope* outer;
  std::vector<std::optional<Value>> slots;
};

/// Attributes of a macro that a template can read.
struct MacroSignature {
  std::string name;  // empty for a call block
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

/// The variable `loop` with its iteration state.
struct Loop : Object {
  Loop(Runtime& runtime, const Statement* n, Value items, Scope* s, int64_t d)
      : Object(ObjectKind::kLoop), node(n), iterable(items), cursor(runtime, std::move(items)), scope(s), depth(d) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kLoop; }

  /// Advances to the next item.
  bool next(Value& item);
  /// Returns the next item without advancing.
  const std::optional<Value>& peek();
  /// Number of items; this exhausts a generator.
  int64_t length(Runtime& runtime);

  const Statement* node;
  Value iterable;
  Cursor cursor;
  Scope* scope;   // enclosing scope of a recursive loop
  int64_t depth;  // of recursion
  int64_t index = -1;
  std::optional<Value> previous, current, lookahead;
  std::optional<int64_t> known_length;
  std::optional<std::vector<Value>> last_changed;
};

}  // namespace keel::jinja
