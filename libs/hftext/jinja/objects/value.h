#pragma once

// Python values for templates. Strings are reference-counted; all other objects belong to the Runtime of a rendering
// and are freed with it, so reference cycles and deep nesting are safe.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "libs/hftext/characters/traced_text.h"

namespace keel::jinja {

class Runtime;
class Value;

/// An immutable string of valid UTF-8 that tracks its untrusted bytes.
struct Text {
  Text(TracedText text, bool is_markup, size_t* live_text_bytes);
  ~Text();
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  bool ascii() const { return length == content.size(); }  // each byte is a code point

  const TracedText content;
  const size_t length;       // in code points
  const bool markup;         // result of the filters safe and escape (Markup)
  size_t* const live_bytes;  // string bytes of a Runtime; null for strings of the template
};
using TextRef = std::shared_ptr<const Text>;

/// Error message for using an undefined value. A null pointer means a variable that was never set.
struct UndefinedReason {
  std::string message;
};

struct Undefined {
  const UndefinedReason* reason = nullptr;
};
struct None {};

enum class ObjectKind : uint8_t {
  kList,
  kTuple,
  kDict,
  kNamespace,
  kRange,
  kView,
  kGenerator,
  kMethod,
  kFunction,
  kMacro,
  kLoop,
  kCycler,
  kJoiner,
  kScope,
};

/// Base class of objects that a Runtime owns.
struct Object {
  explicit Object(ObjectKind k) : kind(k) {}
  virtual ~Object() = default;
  const ObjectKind kind;
};

class Value {
 public:
  Value() = default;  // undefined
  Value(Undefined undefined) : data_(undefined) {}
  Value(None none) : data_(none) {}
  Value(bool boolean) : data_(boolean) {}
  Value(int64_t integer) : data_(integer) {}
  Value(double number) : data_(number) {}
  Value(TextRef text) : data_(std::move(text)) {}
  Value(Object* object) : data_(object) {}
  Value(const void*) = delete;  // a pointer is not a boolean

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_text() const { return std::holds_alternative<TextRef>(data_); }
  /// Also true for booleans, which are integers in Python.
  bool is_integer() const { return std::holds_alternative<int64_t>(data_) || is_bool(); }
  bool is_number() const { return is_integer() || is_float(); }
  bool is(ObjectKind kind) const { return object() != nullptr && object()->kind == kind; }

  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const { return is_bool() ? boolean() : std::get<int64_t>(data_); }
  double number() const { return is_float() ? std::get<double>(data_) : static_cast<double>(integer()); }
  const std::string& text() const { return traced().bytes(); }
  const TracedText& traced() const { return std::get<TextRef>(data_)->content; }
  const TextRef& text_ref() const { return std::get<TextRef>(data_); }
  bool is_markup() const { return is_text() && text_ref()->markup; }
  Undefined undefined() const { return std::get<Undefined>(data_); }
  Object* object() const {
    Object* const* found = std::get_if<Object*>(&data_);
    return found == nullptr ? nullptr : *found;
  }

  /// The object if it is a T, else null.
  template <class T>
  T* as() const {
    Object* o = object();
    return o != nullptr && T::is_kind(o->kind) ? static_cast<T*>(o) : nullptr;
  }

 private:
  std::variant<Undefined, None, bool, int64_t, double, TextRef, Object*> data_;
};

struct Sequence : Object {  // a list or a tuple
  Sequence(ObjectKind list_or_tuple, std::vector<Value> values) : Object(list_or_tuple), items(std::move(values)) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kList || k == ObjectKind::kTuple; }
  bool is_list() const { return kind == ObjectKind::kList; }
  std::vector<Value> items;
  bool is_group = false;  // made by groupby: it has the attributes grouper and list
};

/// Dict in insertion order. Any hashable value can be a key; 1, 1.0 and true are the same key.
struct Dict : Object {
  Dict() : Object(ObjectKind::kDict) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kDict; }
  const Value* find(Runtime& runtime, const Value& key) const;
  const Value* find(Runtime& runtime, std::string_view key) const;
  void set(Runtime& runtime, const Value& key, Value value);
  std::vector<std::pair<Value, Value>> items;

 private:
  std::optional<size_t> find_index(Runtime& runtime, const Value& key, size_t hash) const;
  std::unordered_multimap<size_t, size_t> indices_by_hash_;  // hash to index in items; filled above kMaxUnindexed keys
};

struct Namespace : Object {
  Namespace() : Object(ObjectKind::kNamespace) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kNamespace; }
  Dict attributes;
};

struct Range : Object {
  Range(int64_t from, int64_t to, int64_t by);
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kRange; }
  int64_t at(size_t index) const { return start + static_cast<int64_t>(index) * step; }
  int64_t start, stop, step;
  size_t size;
};

/// Result of dict.keys(), values() and items().
struct View : Object {
  enum class Of { kKeys, kValues, kItems };
  View(const Dict* viewed, Of part) : Object(ObjectKind::kView), dict(viewed), of(part) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kView; }
  const Dict* dict;
  Of of;
};

/// A lazy iterator that can be consumed once, like Python's generators.
struct Generator : Object {
  explicit Generator(std::function<bool(Value&)> function)
      : Object(ObjectKind::kGenerator), step(std::move(function)) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kGenerator; }
  bool next(Runtime& runtime, Value& item);
  std::function<bool(Value&)> step;
  bool done = false, running = false;
};

/// A bound method.
struct Method : Object {
  Method(Value object, std::string_view method) : Object(ObjectKind::kMethod), self(std::move(object)), name(method) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kMethod; }
  Value self;
  std::string name;
};

struct Function : Object {  // range, dict, raise_exception ...
  explicit Function(std::string_view function) : Object(ObjectKind::kFunction), name(function) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kFunction; }
  std::string_view name;
};

struct Cycler : Object {
  explicit Cycler(std::vector<Value> values) : Object(ObjectKind::kCycler), items(std::move(values)) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kCycler; }
  std::vector<Value> items;
  size_t position = 0;
};

struct Joiner : Object {
  explicit Joiner(Value text) : Object(ObjectKind::kJoiner), separator(std::move(text)) {}
  static bool is_kind(ObjectKind k) { return k == ObjectKind::kJoiner; }
  Value separator;
  bool used = false;
};

/// Name of the Python type, for errors.
std::string_view type_name(const Value& value);

// Python's bool(), ==, <, hash() and len(). Those that take a Runtime may fail.
bool is_true(const Value& value);
bool equal(Runtime& runtime, const Value& a, const Value& b);
enum class Order : uint8_t { kLess, kLessEqual, kGreater, kGreaterEqual };
bool ordered(Runtime& runtime, Order order, const Value& a, const Value& b);
inline bool less(Runtime& runtime, const Value& a, const Value& b) { return ordered(runtime, Order::kLess, a, b); }
bool contains(Runtime& runtime, const Value& container, const Value& item);
size_t hash(Runtime& runtime, const Value& value);
std::optional<size_t> length(const Value& value);

/// Python's `is`: the same object, or the same small constant.
bool identical(const Value& a, const Value& b);

/// Iterates like Python's iter().
class Cursor {
 public:
  /// Throws an Error if the value is not iterable.
  Cursor(Runtime& runtime, Value source);
  bool next(Value& item);

 private:
  Runtime* runtime_;
  Value source_;
  size_t index_ = 0;
};

bool is_iterable(const Value& value);
std::vector<Value> to_vector(Runtime& runtime, const Value& iterable);

}  // namespace keel::jinja
