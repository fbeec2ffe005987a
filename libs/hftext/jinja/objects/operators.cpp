#include "libs/hftext/jinja/objects/operators.h"

#include <cmath>

#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {
namespace {

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in"};

std::string_view symbol(Operator op) { return kSymbols[static_cast<size_t>(op)]; }

[[noreturn]] void fail_overflow(Runtime& runtime, Operator op) {
  runtime.fail("the result of '", symbol(op), "' does not fit into 64 bits");
}

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

/// Python's a % b, with the sign of b. It is not computed from floor_divide, because quotient times b may overflow.
int64_t floor_modulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value integer_power(Runtime& runtime, int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result)) fail_overflow(runtime, Operator::kPower);
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow(runtime, Operator::kPower);
  }
  return result;
}

Value integers(Runtime& runtime, Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Operator::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::kDivide:
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    case Operator::kFloorDivide:
      overflow = a == INT64_MIN && b == -1;
      result = overflow ? 0 : floor_divide(a, b);
      break;
    case Operator::kModulo:
      result = floor_modulo(a, b);
      break;
    default:
      return integer_power(runtime, a, b);
  }
  if (overflow) fail_overflow(runtime, op);
  return result;
}

/// Quotient and remainder, which has the divisor's sign, rounded as in CPython.
std::pair<double, double> divide_with_rest(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), rest};
  const double floor = std::floor(quotient);
  return {quotient - floor > 0.5 ? floor + 1 : floor, rest};
}

Value floats(Runtime& runtime, Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return a + b;
    case Operator::kSubtract:
      return a - b;
    case Operator::kMultiply:
      return a * b;
    case Operator::kDivide:
      return a / b;
    case Operator::kFloorDivide:
      return divide_with_rest(a, b).first;
    case Operator::kModulo:
      return divide_with_rest(a, b).second;
    default:
      break;
  }
  if (a == 0 && b < 0) runtime.fail("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    runtime.fail("a negative number to a fractional power is complex, which is not supported");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) runtime.fail("the result of '**' is too large");
  return result;
}

Value numbers(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  const bool divides = op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo;
  if (divides && b.number() == 0) runtime.fail("'", symbol(op), "' by zero");
  const bool to_float = op == Operator::kPower && b.is_integer() && b.integer() < 0;
  if (a.is_integer() && b.is_integer() && !to_float) return integers(runtime, op, a.integer(), b.integer());
  return floats(runtime, op, a.number(), b.number());
}

Value repeat(Runtime& runtime, const Value& value, int64_t times) {
  const size_t count = times < 0 ? 0 : static_cast<size_t>(times);
  if (value.is_text()) {
    const std::string& text = value.text();
    if (count > 0 && text.size() > SIZE_MAX / count) runtime.check_text(SIZE_MAX);
    runtime.check_text(text.size() * count);
    runtime.step(text.empty() ? 0 : count);
    TracedText result;
    for (size_t i = 0; i < count && !text.empty(); ++i) {
      result.append(value.traced());
      runtime.check_text(result);
    }
    return runtime.text(std::move(result), value.is_markup());
  }
  const auto* sequence = value.as<Sequence>();
  const size_t size = sequence->items.size();
  if (size > 0 && count > SIZE_MAX / sizeof(Value) / size) runtime.check_text(SIZE_MAX);
  runtime.check_text(size * count * sizeof(Value));
  runtime.step(size * count);
  std::vector<Value> items;
  items.reserve(size * count);
  for (size_t i = 0; i < count && size > 0; ++i)
    items.insert(items.end(), sequence->items.begin(), sequence->items.end());
  return sequence->is_list() ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
}

Value concatenate(Runtime& runtime, const Sequence& a, const Sequence& b) {
  runtime.step(a.items.size() + b.items.size());
  std::vector<Value> items;
  items.reserve(a.items.size() + b.items.size());
  items.insert(items.end(), a.items.begin(), a.items.end());
  items.insert(items.end(), b.items.begin(), b.items.end());
  return a.is_list() ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
}

bool is_repeatable(const Value& value) { return value.is_text() || value.as<Sequence>() != nullptr; }

[[noreturn]] void fail_operands(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  if (a.is_undefined()) runtime.fail_undefined(a);
  if (b.is_undefined()) runtime.fail_undefined(b);
  runtime.fail("'", symbol(op), "' is not defined between ", type_name(a), " and ", type_name(b));
}

}  // namespace

Value add(Runtime& runtime, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return numbers(runtime, Operator::kAdd, a, b);
  if (a.is_text() && b.is_text()) {
    runtime.check_text(a.text().size() + b.text().size());
    const bool markup = a.is_markup() || b.is_markup();
    TracedText result;
    for (const Value* v : {&a, &b}) {
      if (markup && !v->is_markup()) {
        result.append(escape_html(runtime, v->traced()));
      } else {
        result.append(v->traced());
      }
    }
    return runtime.text(std::move(result), markup);
  }
  const auto *x = a.as<Sequence>(), *y = b.as<Sequence>();
  if (x != nullptr && y != nullptr && x->kind == y->kind) return concatenate(runtime, *x, *y);
  fail_operands(runtime, Operator::kAdd, a, b);
}

Value binary(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  if (op == Operator::kAdd) return add(runtime, a, b);
  if (a.is_number() && b.is_number()) return numbers(runtime, op, a, b);
  if (op == Operator::kModulo && a.is_text()) return runtime.text(format_percent(runtime, a, b), a.is_markup());
  if (op == Operator::kMultiply && is_repeatable(a) && b.is_integer()) return repeat(runtime, a, b.integer());
  if (op == Operator::kMultiply && is_repeatable(b) && a.is_integer()) return repeat(runtime, b, a.integer());
  fail_operands(runtime, op, a, b);
}

Value unary(Runtime& runtime, Operator op, const Value& value) {
  if (value.is_undefined()) runtime.fail_undefined(value);
  if (!value.is_number()) runtime.fail("'", symbol(op), "' is not defined for ", type_name(value));
  if (value.is_float()) return op == Operator::kSubtract ? -value.number() : value.number();
  if (op == Operator::kAdd) return value.integer();
  if (value.integer() == INT64_MIN) fail_overflow(runtime, op);
  return -value.integer();
}

bool compare(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEqual:
      return equal(runtime, a, b);
    case Operator::kNotEqual:
      return !equal(runtime, a, b);
    case Operator::kLess:
      return ordered(runtime, Order::kLess, a, b);
    case Operator::kLessEqual:
      return ordered(runtime, Order::kLessEqual, a, b);
    case Operator::kGreater:
      return ordered(runtime, Order::kGreater, a, b);
    case Operator::kGreaterEqual:
      return ordered(runtime, Order::kGreaterEqual, a, b);
    case Operator::kIn:
      return contains(runtime, b, a);
    default:
      return !contains(runtime, b, a);
  }
}

}  // namespace keel::jinja
