#include <algorithm>

#include "libs/hftext/jinja/objects/bound_arguments.h"
#include "libs/hftext/jinja/objects/builtins.h"
#include "libs/hftext/jinja/objects/convert.h"
#include "libs/hftext/jinja/objects/operators.h"
#include "libs/hftext/jinja/objects/python_str.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {
namespace {

using Test = bool (*)(Runtime&, const Value& input, const Value& argument);

struct TestRow {
  std::string_view name;
  size_t arguments;
  Test test;
};

bool remainder_is(Runtime& runtime, const Value& value, const Value& divisor, int64_t rest) {
  return equal(runtime, binary(runtime, Operator::kModulo, value, divisor), rest);
}

/// True if a string has cased letters and all of them have the expected case.
bool is_in_case(Runtime& runtime, const std::string& text, bool (*expected)(char32_t), bool (*opposite)(char32_t)) {
  runtime.step_characters(text.size());
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    if (opposite(code) || is_title(code)) return false;
    any = any || expected(code);
  }
  return any;
}

bool is_callable(const Value& value) {
  return value.is_undefined() || value.is(ObjectKind::kMacro) || value.is(ObjectKind::kMethod) ||
         value.is(ObjectKind::kFunction) || value.is(ObjectKind::kJoiner) || value.is(ObjectKind::kLoop);
}

bool is_sequence(const Value& value) { return length(value).has_value() && !value.is(ObjectKind::kView); }

template <Operator kOperator>
bool compares(Runtime& runtime, const Value& a, const Value& b) {
  return compare(runtime, kOperator, a, b);
}

const TestRow kTests[] = {
    {"!=", 1, compares<Operator::kNotEqual>},
    {"<", 1, compares<Operator::kLess>},
    {"<=", 1, compares<Operator::kLessEqual>},
    {"==", 1, compares<Operator::kEqual>},
    {">", 1, compares<Operator::kGreater>},
    {">=", 1, compares<Operator::kGreaterEqual>},
    {"boolean", 0, [](Runtime&, const Value& v, const Value&) { return v.is_bool(); }},
    {"callable", 0, [](Runtime&, const Value& v, const Value&) { return is_callable(v); }},
    {"defined", 0, [](Runtime&, const Value& v, const Value&) { return !v.is_undefined(); }},
    {"divisibleby", 1, [](Runtime& r, const Value& v, const Value& by) { return remainder_is(r, v, by, 0); }},
    {"eq", 1, compares<Operator::kEqual>},
    {"equalto", 1, compares<Operator::kEqual>},
    {"escaped", 0, [](Runtime&, const Value& v, const Value&) { return v.is_markup(); }},
    {"even", 0, [](Runtime& r, const Value& v, const Value&) { return remainder_is(r, v, int64_t{2}, 0); }},
    {"false", 0, [](Runtime&, const Value& v, const Value&) { return v.is_bool() && !v.boolean(); }},
    {"filter", 0, [](Runtime&, const Value& v, const Value&) { return v.is_text() && is_filter(v.text()); }},
    {"float", 0, [](Runtime&, const Value& v, const Value&) { return v.is_float(); }},
    {"ge", 1, compares<Operator::kGreaterEqual>},
    {"greaterthan", 1, compares<Operator::kGreater>},
    {"gt", 1, compares<Operator::kGreater>},
    {"in", 1, compares<Operator::kIn>},
    {"integer", 0, [](Runtime&, const Value& v, const Value&) { return v.is_integer() && !v.is_bool(); }},
    {"iterable", 0, [](Runtime&, const Value& v, const Value&) { return is_iterable(v) || v.is(ObjectKind::kLoop); }},
    {"le", 1, compares<Operator::kLessEqual>},
    {"lessthan", 1, compares<Operator::kLess>},
    {"lower", 0,
     [](Runtime& r, const Value& v, const Value&) { return is_in_case(r, to_text(r, v).bytes(), is_lower, is_upper); }},
    {"lt", 1, compares<Operator::kLess>},
    {"mapping", 0, [](Runtime&, const Value& v, const Value&) { return v.is(ObjectKind::kDict); }},
    {"ne", 1, compares<Operator::kNotEqual>},
    {"none", 0, [](Runtime&, const Value& v, const Value&) { return v.is_none(); }},
    {"number", 0, [](Runtime&, const Value& v, const Value&) { return v.is_number(); }},
    {"odd", 0, [](Runtime& r, const Value& v, const Value&) { return remainder_is(r, v, int64_t{2}, 1); }},
    {"sameas", 1, [](Runtime&, const Value& a, const Value& b) { return identical(a, b); }},
    {"sequence", 0, [](Runtime&, const Value& v, const Value&) { return is_sequence(v); }},
    {"string", 0, [](Runtime&, const Value& v, const Value&) { return v.is_text(); }},
    {"test", 0, [](Runtime&, const Value& v, const Value&) { return v.is_text() && is_test(v.text()); }},
    {"true", 0, [](Runtime&, const Value& v, const Value&) { return v.is_bool() && v.boolean(); }},
    {"undefined", 0, [](Runtime&, const Value& v, const Value&) { return v.is_undefined(); }},
    {"upper", 0,
     [](Runtime& r, const Value& v, const Value&) { return is_in_case(r, to_text(r, v).bytes(), is_upper, is_lower); }},
};

const TestRow* find_test(std::string_view name) {
  const auto row = std::find_if(std::begin(kTests), std::end(kTests), [&](const TestRow& r) { return r.name == name; });
  return row == std::end(kTests) ? nullptr : row;
}

}  // namespace

bool is_test(std::string_view name) { return find_test(name) != nullptr; }

bool call_test(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  runtime.step();
  const TestRow* row = find_test(name);
  if (row == nullptr) runtime.fail("no test is called '", name, "'");
  if (row->arguments == 0) {
    const BoundArguments none(runtime, name, arguments, {});
    return row->test(runtime, input, Value());
  }
  const std::string_view parameter = name == "divisibleby" ? "num"
                                     : name == "in"        ? "seq"
                                     : name == "sameas"    ? "other"
                                                           : "";
  const BoundArguments bound(runtime, name, arguments, {parameter}, 1);
  return row->test(runtime, input, bound.at(0));
}

}  // namespace keel::jinja
