#include "libs/hftext/jinja/objects/value.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "libs/hftext/characters/search.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {
namespace {

constexpr size_t kMaxUnindexed = 8;  // smaller dicts use linear search

/// Returns -1, 0 or 1, or nullopt for NaN. Exact also for integers that a double cannot represent.
std::optional<int> compare_numbers(const Value& a, const Value& b) {
  if (a.is_float() && b.is_float()) {
    const double x = a.number(), y = b.number();
    if (std::isnan(x) || std::isnan(y)) return std::nullopt;
    return x < y ? -1 : x > y;
  }
  if (!a.is_float() && !b.is_float()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
  if (a.is_float()) {
    const std::optional<int> order = compare_numbers(b, a);
    return order ? std::optional<int>(-*order) : std::nullopt;
  }
  const double y = b.number();
  if (std::isnan(y)) return std::nullopt;
  if (y >= 0x1p63) return -1;
  if (y < -0x1p63) return 1;
  const auto whole = static_cast<int64_t>(y);  // rounds toward zero
  if (a.integer() != whole) return a.integer() < whole ? -1 : 1;
  const double rest = y - static_cast<double>(whole);
  return rest > 0 ? -1 : rest < 0;
}

bool equal_items(Runtime& runtime, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!identical(a[i], b[i]) && !equal(runtime, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.find(runtime, key);
    if (other == nullptr || !(identical(value, *other) || equal(runtime, value, *other))) return false;
  }
  return true;
}

bool holds(Order order, int sign) {
  switch (order) {
    case Order::kLess:
      return sign < 0;
    case Order::kLessEqual:
      return sign <= 0;
    case Order::kGreater:
      return sign > 0;
    case Order::kGreaterEqual:
      break;
  }
  return sign >= 0;
}

std::vector<Value> items_of_range(const Range& range) {
  std::vector<Value> items;
  for (size_t i = 0; i < range.size; ++i) items.emplace_back(range.at(i));
  return items;
}

}  // namespace

Range::Range(int64_t from, int64_t to, int64_t by)
    : Object(ObjectKind::kRange), start(from), stop(to), step(by), size(0) {
  // Unsigned arithmetic, because the difference of two int64 may overflow.
  if (step > 0 && start < stop) {
    size = (static_cast<uint64_t>(stop) - static_cast<uint64_t>(start) - 1) / static_cast<uint64_t>(step) + 1;
  } else if (step < 0 && start > stop) {
    size = (static_cast<uint64_t>(start) - static_cast<uint64_t>(stop) - 1) / (0 - static_cast<uint64_t>(step)) + 1;
  }
}

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "None";
  if (value.is_bool()) return "bool";
  if (value.is_integer()) return "int";
  if (value.is_float()) return "float";
  if (value.is_text()) return value.is_markup() ? "Markup" : "str";
  switch (value.object()->kind) {
    case ObjectKind::kList:
      return "list";
    case ObjectKind::kTuple:
      return "tuple";
    case ObjectKind::kDict:
      return "dict";
    case ObjectKind::kNamespace:
      return "namespace";
    case ObjectKind::kRange:
      return "range";
    case ObjectKind::kView:
      return "dict view";
    case ObjectKind::kGenerator:
      return "generator";
    case ObjectKind::kMethod:
      return "method";
    case ObjectKind::kFunction:
      return "function";
    case ObjectKind::kMacro:
      return "macro";
    case ObjectKind::kLoop:
      return "loop";
    case ObjectKind::kCycler:
      return "cycler";
    case ObjectKind::kJoiner:
      return "joiner";
    case ObjectKind::kScope:
      break;
  }
  return "object";
}

bool is_true(const Value& value) {
  if (value.is_bool()) return value.boolean();
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_number()) return value.number() != 0;
  if (value.is_text()) return !value.text().empty();
  const std::optional<size_t> size = length(value);
  return !size || *size > 0;
}

std::optional<size_t> length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return value.text_ref()->length;
  if (const auto* sequence = value.as<Sequence>()) return sequence->items.size();
  if (const auto* dict = value.as<Dict>()) return dict->items.size();
  if (const auto* view = value.as<View>()) return view->dict->items.size();
  if (const auto* range = value.as<Range>()) return range->size;
  return std::nullopt;
}

bool identical(const Value& a, const Value& b) {
  if (a.object() != nullptr) return a.object() == b.object();
  if (a.is_none()) return b.is_none();
  if (a.is_bool()) return b.is_bool() && a.boolean() == b.boolean();
  if (a.is_text()) return b.is_text() && (a.text_ref() == b.text_ref());
  if (a.is_integer()) return b.is_integer() && !b.is_bool() && a.integer() == b.integer();
  return false;
}

bool equal(Runtime& runtime, const Value& a, const Value& b) {
  runtime.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.is_text() && b.is_text()) {
    if (a.text().size() == b.text().size()) runtime.step_copy(a.text().size());
    return a.text() == b.text();
  }
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.object() == nullptr || b.object() == nullptr) return false;
  if (a.object() == b.object()) return true;
  const Runtime::NestingGuard guard(runtime);
  if (a.object()->kind != b.object()->kind) return false;
  if (const auto* x = a.as<Sequence>()) return equal_items(runtime, x->items, b.as<Sequence>()->items);
  if (const auto* x = a.as<Dict>()) return equal_dicts(runtime, *x, *b.as<Dict>());
  if (const auto* x = a.as<Range>()) {
    const auto* y = b.as<Range>();
    return x->size == y->size && (x->size == 0 || (x->start == y->start && (x->size == 1 || x->step == y->step)));
  }
  if (const auto* x = a.as<Method>()) {
    const auto* y = b.as<Method>();
    return x->name == y->name && identical(x->self, y->self);
  }
  return false;
}

bool ordered(Runtime& runtime, Order order, const Value& a, const Value& b) {
  runtime.step();
  if (a.is_undefined()) runtime.fail_undefined(a);
  if (b.is_undefined()) runtime.fail_undefined(b);
  if (a.is_number() && b.is_number()) {
    const std::optional<int> sign = compare_numbers(a, b);
    return sign && holds(order, *sign);
  }
  if (a.is_text() && b.is_text()) {
    runtime.step_copy(std::min(a.text().size(), b.text().size()));
    const int sign = a.text().compare(b.text());  // the order of UTF-8 bytes is that of code points
    return holds(order, sign < 0 ? -1 : sign > 0);
  }
  const auto *x = a.as<Sequence>(), *y = b.as<Sequence>();
  if (x != nullptr && y != nullptr && x->kind == y->kind) {
    const Runtime::NestingGuard guard(runtime);
    const size_t both = std::min(x->items.size(), y->items.size());
    for (size_t i = 0; i < both; ++i) {
      if (identical(x->items[i], y->items[i]) || equal(runtime, x->items[i], y->items[i])) continue;
      return ordered(runtime, order, x->items[i], y->items[i]);
    }
    return holds(order, x->items.size() < y->items.size() ? -1 : x->items.size() > y->items.size());
  }
  constexpr std::string_view kSymbols[] = {"<", "<=", ">", ">="};
  runtime.fail("'", kSymbols[static_cast<size_t>(order)], "' is not defined between ", type_name(a), " and ",
               type_name(b));
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_text()) {
    if (!item.is_text()) runtime.fail("'in' a string expects a string, got ", type_name(item));
    runtime.step_search(container.text().size());
    return text::find(container.text(), item.text()) != std::string::npos;
  }
  if (const auto* dict = container.as<Dict>()) return dict->find(runtime, item) != nullptr;
  const auto* view = container.as<View>();
  if (view != nullptr && view->of == View::Of::kKeys) return view->dict->find(runtime, item) != nullptr;
  Value candidate;
  for (Cursor cursor(runtime, container); cursor.next(candidate);) {
    if (identical(candidate, item) || equal(runtime, candidate, item)) return true;
  }
  return false;
}

size_t hash(Runtime& runtime, const Value& value) {
  runtime.step();
  if (value.is_text()) {
    runtime.step_copy(value.text().size());
    return std::hash<std::string>()(value.text());
  }
  if (value.is_integer()) return std::hash<int64_t>()(value.integer());
  if (value.is_float()) {
    const double number = value.number();  // 1.0 is the same key as 1
    if (number >= -0x1p63 && number < 0x1p63 && number == std::trunc(number)) {
      return std::hash<int64_t>()(static_cast<int64_t>(number));
    }
    return std::hash<double>()(number);
  }
  if (value.is_undefined()) return 1;
  if (value.is_none()) return 2;
  const Runtime::NestingGuard guard(runtime);
  if (value.is(ObjectKind::kTuple)) {
    size_t result = 3;
    for (const Value& item : value.as<Sequence>()->items) result = result * 1000003 ^ hash(runtime, item);
    return result;
  }
  if (const auto* range = value.as<Range>()) return range->size * 31 + static_cast<size_t>(range->start);
  if (value.is(ObjectKind::kList) || value.is(ObjectKind::kDict) || value.is(ObjectKind::kView)) {
    runtime.fail("a ", type_name(value), " cannot be a key or be looked up as one");
  }
  if (const auto* method = value.as<Method>()) return std::hash<std::string>()(method->name);
  return std::hash<const Object*>()(value.object());
}

std::optional<size_t> Dict::find_index(Runtime& runtime, const Value& key, size_t hash) const {
  const auto matches = [&](size_t i) { return identical(items[i].first, key) || equal(runtime, items[i].first, key); };
  if (items.size() <= kMaxUnindexed) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (matches(i)) return i;
    }
    return std::nullopt;
  }
  const auto [first, last] = indices_by_hash_.equal_range(hash);
  for (auto entry = first; entry != last; ++entry) {
    if (matches(entry->second)) return entry->second;
  }
  return std::nullopt;
}

const Value* Dict::find(Runtime& runtime, const Value& key) const {
  const std::optional<size_t> index = find_index(runtime, key, hash(runtime, key));
  return index ? &items[*index].second : nullptr;
}

const Value* Dict::find(Runtime& runtime, std::string_view key) const {
  runtime.step_copy(key.size());
  const auto is_key = [&](const Value& v) {
    runtime.step();  // a hostile template can make hashes collide
    return v.is_text() && v.text() == key;
  };
  if (items.size() <= kMaxUnindexed) {
    for (const auto& [k, value] : items) {
      if (is_key(k)) return &value;
    }
    return nullptr;
  }
  const auto [first, last] = indices_by_hash_.equal_range(std::hash<std::string_view>()(key));
  for (auto entry = first; entry != last; ++entry) {
    if (is_key(items[entry->second].first)) return &items[entry->second].second;
  }
  return nullptr;
}

void Dict::set(Runtime& runtime, const Value& key, Value value) {
  const size_t key_hash = hash(runtime, key);
  if (const std::optional<size_t> index = find_index(runtime, key, key_hash)) {
    items[*index].second = std::move(value);
    return;
  }
  runtime.charge(2 * sizeof(Value) + 4 * sizeof(size_t));
  items.emplace_back(key, std::move(value));
  if (items.size() == kMaxUnindexed + 1) {
    for (size_t i = 0; i + 1 < items.size(); ++i) indices_by_hash_.emplace(jinja::hash(runtime, items[i].first), i);
  }
  if (items.size() > kMaxUnindexed) indices_by_hash_.emplace(key_hash, items.size() - 1);
}

bool Generator::next(Runtime& runtime, Value& item) {
  if (done) return false;
  if (running) runtime.fail("a generator is already running");
  const Runtime::NestingGuard guard(runtime);
  running = true;  // stays set after an Error, which ends the rendering
  done = !step(item);
  running = false;
  return !done;
}

bool is_iterable(const Value& value) {
  if (value.is_undefined() || value.is_text()) return true;
  if (value.object() == nullptr) return false;
  switch (value.object()->kind) {
    case ObjectKind::kList:
    case ObjectKind::kTuple:
    case ObjectKind::kDict:
    case ObjectKind::kRange:
    case ObjectKind::kView:
    case ObjectKind::kGenerator:
      return true;
    default:
      return false;
  }
}

Cursor::Cursor(Runtime& runtime, Value source) : runtime_(&runtime), source_(std::move(source)) {
  if (!is_iterable(source_)) {
    runtime.fail("a ", type_name(source_), " cannot be iterated; expected a list, a dict or a string");
  }
}

bool Cursor::next(Value& item) {
  runtime_->step();
  if (source_.is_undefined()) return false;
  if (source_.is_text()) {
    if (index_ >= source_.text().size()) return false;
    const size_t begin = index_;
    next_code_point(source_.text(), index_);
    item = runtime_->text(source_.traced().part(begin, index_));
    return true;
  }
  if (auto* generator = source_.as<Generator>()) return generator->next(*runtime_, item);
  if (index_ >= *length(source_)) return false;
  const size_t i = index_++;
  if (const auto* sequence = source_.as<Sequence>()) {
    item = sequence->items[i];
  } else if (const auto* range = source_.as<Range>()) {
    item = range->at(i);
  } else {
    const auto* view = source_.as<View>();
    const auto& [key, value] = (view != nullptr ? view->dict : source_.as<Dict>())->items[i];
    if (view == nullptr || view->of == View::Of::kKeys) {
      item = key;
    } else {
      item = view->of == View::Of::kValues ? value : runtime_->tuple({key, value});
    }
  }
  return true;
}

std::vector<Value> to_vector(Runtime& runtime, const Value& iterable) {
  runtime.step(length(iterable).value_or(0) / 8);
  if (const auto* sequence = iterable.as<Sequence>()) return sequence->items;
  if (const auto* range = iterable.as<Range>()) return items_of_range(*range);
  std::vector<Value> items;
  Value item;
  for (Cursor cursor(runtime, iterable); cursor.next(item);) items.push_back(item);
  return items;
}

}  // namespace keel::jinja
