#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "libs/hftext/jinja/library/filter_table.h"
#include "libs/hftext/jinja/objects/bound_arguments.h"
#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/operators.h"

namespace keel::jinja {
namespace {

/// int() of a finite float.
int64_t truncated(Runtime& runtime, double number) {
  if (!(std::abs(number) < 0x1p63)) runtime.fail("the integer part of ", number, " does not fit into 64 bits");
  return static_cast<int64_t>(number);
}

Value to_integer(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "int", arguments, {"default", "base"});
  const Value default_value = bound.has(0) ? bound.at(0) : Value(int64_t{0});
  if (input.is_undefined()) runtime.fail_undefined(input);
  if (input.is_integer()) return input.integer();
  std::optional<double> number;
  if (input.is_float()) {
    // int(inf) is an OverflowError, which the filter lets through; int(nan) is a ValueError, which it catches.
    if (std::isinf(input.number())) runtime.fail("'int' of an infinite number");
    number = input.number();
  } else if (input.is_text()) {
    const int64_t base = bound.integer(1, 10);
    if (base == 0 || (base >= 2 && base <= 36)) {
      const std::optional<int64_t> parsed = parse_integer(runtime, input.text(), static_cast<int>(base));
      if (parsed) return *parsed;
    }
    number = parse_float(runtime, input.text());
  }
  if (!number || !std::isfinite(*number)) return default_value;
  return truncated(runtime, *number);
}

Value to_float(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "float", arguments, {"default"});
  if (input.is_undefined()) runtime.fail_undefined(input);
  if (input.is_number()) return input.number();
  const std::optional<double> number = input.is_text() ? parse_float(runtime, input.text()) : std::nullopt;
  if (number) return *number;
  return bound.has(0) ? bound.at(0) : Value(0.0);
}

Value absolute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "abs", arguments, {});
  if (!input.is_number()) runtime.fail("'abs' expects a number, got ", type_name(input));
  if (input.is_float()) return std::abs(input.number());
  return input.integer() < 0 ? unary(runtime, Operator::kSubtract, input) : Value(input.integer());
}

/// Python's round(integer, -digits): rounds to a multiple of a power of ten, ties to even.
Value round_integer(Runtime& runtime, int64_t value, int64_t precision) {
  if (precision >= 0) return value;
  if (precision < -18) return int64_t{0};  // 10^19 / 2 is beyond every int64
  int64_t unit = 1;
  for (int64_t i = 0; i < -precision; ++i) unit *= 10;
  const int64_t rest = ((value % unit) + unit) % unit, half = unit / 2;
  int64_t low = 0;
  if (__builtin_sub_overflow(value, rest, &low)) runtime.fail("the result of 'round' does not fit into 64 bits");
  const bool up = rest > half || (rest == half && (low / unit) % 2 != 0);
  return up ? add(runtime, low, unit) : Value(low);
}

/// Python's round(float, digits): rounds to `digits` decimals, exact ties to even.
double round_float(double value, int64_t precision) {
  constexpr int64_t kMaxDecimals = 323, kMaxZeros = 308;  // doubles have values from 5e-324 to 1.8e308
  if (!std::isfinite(value) || precision > kMaxDecimals) return value;
  if (precision < -kMaxZeros) return std::copysign(0.0, value);
  if (precision >= 0) {
    char buffer[700];  // 309 digits before and 323 after the point
    std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), value);
    return std::strtod(buffer, nullptr);
  }
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(value / unit) * unit;
}

Value round(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "round", arguments, {"precision", "method"});
  const std::string method = bound.has(1) ? to_text(runtime, bound.at(1)).bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    runtime.fail("the method of 'round' is '", method, "'; it must be common, ceil or floor");
  }
  if (input.is_undefined()) runtime.fail_undefined(input);
  if (!input.is_number()) runtime.fail("'round' expects a number, got ", type_name(input));
  const int64_t precision = bound.integer(0, 0);
  if (method == "common") {
    if (input.is_integer()) return round_integer(runtime, input.integer(), precision);
    return round_float(input.number(), precision);
  }
  const Value unit = binary(runtime, Operator::kPower, int64_t{10}, precision);
  const Value scaled = binary(runtime, Operator::kMultiply, input, unit);
  int64_t whole = 0;
  if (scaled.is_integer()) {
    whole = scaled.integer();
  } else {
    if (!std::isfinite(scaled.number())) runtime.fail("'round' of a number that is not finite");
    whole = truncated(runtime, method == "ceil" ? std::ceil(scaled.number()) : std::floor(scaled.number()));
  }
  return binary(runtime, Operator::kDivide, whole, unit);
}

}  // namespace

std::vector<FilterRow> number_filters() {
  return {{"abs", absolute}, {"float", to_float}, {"int", to_integer}, {"round", round}};
}

}  // namespace keel::jinja
