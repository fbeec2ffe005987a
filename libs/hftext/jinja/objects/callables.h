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
  Scope(Scope* enclosing, int slot_count)
      : Object(ObjectKind::kScope), outer(enclosing), slots(static_cast<size_t>(slot_count)) {}
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
  Macro(const Statement* statement, Scope* defining_scope, MacroSignature macro_signature)
      : Object(ObjectKind::kMacro), node(statement), scope(defining_scope), signature(std::move(macro_signature)) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kMacro; }
  const Statement* node;
  Scope* scope;  // in which it was defined
  MacroSignature signature;
};

/// The variable `loop` with its iteration state.
struct Loop : Object {
  Loop(Runtime& runtime, const Statement* statement, Value items, Scope* enclosing, int64_t recursion_depth)
      : Object(ObjectKind::kLoop),
        node(statement),
        iterable(items),
        cursor(runtime, std::move(items)),
        scope(enclosing),
        depth(recursion_depth) {}
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
