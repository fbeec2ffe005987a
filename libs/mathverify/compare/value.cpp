#include "libs/mathverify/compare/value.h"

#include <algorithm>

namespace keel::math {
namespace {

using Kind = Node::Kind;

bool contains(const Node& node, Kind kind) {
  if (node.kind == kind) return true;
  return std::any_of(node.children.begin(), node.children.end(),
                     [&](const auto& child) { return contains(*child, kind); });
}

size_t count(const Node& node, Kind kind) {
  size_t total = node.kind == kind;
  for (const auto& child : node.children) total += count(*child, kind);
  return total;
}

/// True for degrees outside functions such as sine, which treat them as angles.
bool has_degrees(const Node& node) {
  return node.kind == Kind::kDegree ||
         (node.kind != Kind::kFunction && std::any_of(node.children.begin(), node.children.end(),
                                                      [](const auto& child) { return has_degrees(*child); }));
}

bool contains_pi(const Node& node) {
  if (node.kind == Kind::kConstant && node.name == "pi") return true;
  return std::any_of(node.children.begin(), node.children.end(), [](const auto& child) { return contains_pi(*child); });
}

bool is_temperature(const Node& node) {
  return node.kind == Kind::kVariable && (node.name == "C" || node.name == "F" || node.name == "K");
}

/// True for the product 20 degrees C, without a sign.
bool is_degrees(const Node& node) {
  return node.kind == Kind::kProduct && node.children[0]->kind == Kind::kDegree && is_temperature(*node.children[1]);
}

bool is_negative_constant(const Node& node) {
  return node.kind == Kind::kNegative && node.children[0]->kind == Kind::kConstant;
}

}  // namespace

Value Evaluator::evaluate(const Node& node) {
  plus_minus_ = 0;  // the previous evaluation may have thrown
  in_angle_ = false;
  counters_.clear();
  return value(node);
}

/// Evaluates a node. A statement with +- becomes the list of its two values.
Value Evaluator::value(const Node& node) {
  algebra_.budget().charge(300);
  const bool composite =
      node.kind == Kind::kList || node.kind == Kind::kSet || node.kind == Kind::kMatrix || node.kind == Kind::kRelation;
  if (!composite && plus_minus_ == 0 && contains(node, Kind::kPlusMinus)) {
    if (count(node, Kind::kPlusMinus) > 1) throw Undecided{};
    Value alternatives{.kind = Value::Kind::kList, .is_alternative = true};
    for (const int sign : {1, -1}) {
      plus_minus_ = sign;
      alternatives.items.push_back(value(node));
    }
    plus_minus_ = 0;
    return alternatives;
  }
  switch (node.kind) {
    case Kind::kConstant:
      if (node.name == "infinity") return {.kind = Value::Kind::kInfinity, .form = algebra_.number(Rational(1))};
      break;
    case Kind::kNegative:
      if (is_negative_constant(node) && node.children[0]->name == "infinity")
        return {.kind = Value::Kind::kInfinity, .form = algebra_.number(Rational(-1))};
      if (node.children[0]->kind == Kind::kPercent || is_degrees(*node.children[0])) {
        Value inner = value(*node.children[0]);
        inner.form = algebra_.scale(inner.form, Rational(-1));
        return inner;
      }
      break;
    case Kind::kSum:
      if (node.children.size() == 1) return value(*node.children[0]);
      if (node.children[0]->kind == Kind::kReals && node.children[1]->kind == Kind::kNegative) {  // R - {0}
        const std::optional<RealSet> excluded = as_reals(value(*node.children[1]->children[0]));
        if (!excluded) throw Undecided{};
        return {.kind = Value::Kind::kReals, .reals = complement(*excluded)};
      }
      break;
    case Kind::kPercent:
      return {.form = scalar(*node.children[0]), .is_percent = true};
    case Kind::kDegree:
      return {.form = scalar(*node.children[0]), .unit = parse_unit("degree")};
    case Kind::kProduct:  // 20 degrees C; 0 K is not 0
      if (node.children[0]->kind == Kind::kNumber && node.children[0]->value.sign() == 0 &&
          is_temperature(*node.children[1]))
        return {.unit = parse_unit(node.children[1]->name)};
      if (is_degrees(node))
        return {.form = scalar(*node.children[0]->children[0]), .unit = parse_unit("degree " + node.children[1]->name)};
      break;
    case Kind::kPower:  // (1, 2)^T is a column
      if (node.children[0]->kind == Kind::kGroup && node.children[1]->kind == Kind::kVariable &&
          node.children[1]->name == "T") {
        Value column = group(*node.children[0]);
        if (column.kind != Value::Kind::kGroup) return transpose(column);
        return {.kind = Value::Kind::kMatrix, .items = std::move(column.items), .columns = 1};
      }
      break;
    case Kind::kUnit:
      return quantity(node);
    case Kind::kGroup:
      return group(node);
    case Kind::kSet:
    case Kind::kList:
      return list(node);
    case Kind::kMatrix: {
      Value result{.kind = Value::Kind::kMatrix, .columns = node.columns};
      for (const auto& child : node.children) result.items.push_back({.form = scalar(*child)});
      return result;
    }
    case Kind::kRelation:
      return relation(node);
    case Kind::kRatio:
      return ratio(node);
    case Kind::kEmptySet:
      return {.kind = Value::Kind::kReals};
    case Kind::kReals:
      return {.kind = Value::Kind::kReals, .reals = {Piece{}}};
    case Kind::kUnion:
    case Kind::kIntersection:
    case Kind::kDifference:
      return combine_sets(node);
    case Kind::kBuilder:
      return set_builder(node);
    case Kind::kPiece: {
      Value result{.kind = Value::Kind::kGroup, .brackets = "if"};
      for (const auto& child : node.children) result.items.push_back(value(*child));
      return result;
    }
    default:
      break;
  }
  if (has_matrix(node)) return matrix(node);
  if (has_degrees(node) && contains_pi(node)) throw Undecided{};  // 2 pi degrees are not 2 pi
  return {.form = scalar(node)};
}

/// Evaluates a list or set and flattens the values of +-.
Value Evaluator::list(const Node& node) {
  Value result{.kind = node.kind == Kind::kSet ? Value::Kind::kSet : Value::Kind::kList};
  result.is_number_set = node.name == "numbers";
  for (const auto& child : node.children) {
    Value item = value(*child);
    if (item.kind != Value::Kind::kList)
      result.items.push_back(std::move(item));
    else
      for (Value& each : item.items) {
        each.subject = item.subject;
        result.items.push_back(std::move(each));
      }
  }
  if (node.children[0]->kind == Kind::kPiece) return fill_in_otherwise(std::move(result));
  if (node.name == "compound") {
    std::optional<Value> sum = sum_quantities(result);
    if (!sum) throw Undecided{};
    return *sum;
  }
  return node.kind == Kind::kList ? combine_relations(node, std::move(result)) : result;
}

/// Replaces "otherwise" by the complement of the other conditions.
Value Evaluator::fill_in_otherwise(Value pieces) {
  Value rest{.kind = Value::Kind::kReals, .reals = {Piece{}}};
  Value* last = nullptr;
  for (Value& piece : pieces.items) {
    if (piece.items.size() < 2) {
      if (std::exchange(last, &piece) != nullptr) throw Undecided{};
      continue;
    }
    const Value& condition = piece.items[1];
    if (condition.kind != Value::Kind::kReals && condition.kind != Value::Kind::kScalar) return pieces;
    const std::optional<RealSet> covered = as_reals(
        condition.kind == Value::Kind::kReals ? condition : Value{.kind = Value::Kind::kSet, .items = {condition}});
    if (!covered) return pieces;
    rest.reals = intersection(rest.reals, complement(*covered));
    rest.subject = condition.subject;
  }
  if (last != nullptr) last->items.push_back(std::move(rest));
  return pieces;
}

Value Evaluator::ratio(const Node& node) {
  Value result{.kind = Value::Kind::kRatio};
  result.is_time = node.children.size() <= 3 && node.name.empty();
  result.brackets = node.name;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const Node& child = *node.children[i];
    result.items.push_back(value(child));
    const bool is_clock = child.kind == Kind::kNumber && child.is_plain_integer &&
                          (i == 0 || (child.name.size() == 2 && child.value < Rational(60)));
    result.is_time = result.is_time && is_clock;
  }
  return result;
}

Value Evaluator::quantity(const Node& node) {
  Value result = value(*node.children[0]);
  const bool has_degrees = result.unit && result.unit->dimensions.contains("degree");
  Unit unit = parse_unit(has_degrees ? "degree " + node.name : node.name);
  if (has_degrees) result.unit.reset();                           // 20 degrees Celsius
  if (unit.dimensions.size() > 1) unit.dimensions.erase("unit");  // 5 units per hour
  if (result.kind == Value::Kind::kRatio) {                       // 11:30 am
    result.unit = unit;
    return result;
  }
  if (result.kind != Value::Kind::kScalar || result.is_percent) {
    if (result.kind != Value::Kind::kList && result.kind != Value::Kind::kGroup) throw Undecided{};
    for (Value& item : result.items)
      if (item.kind != Value::Kind::kScalar || item.unit) throw Undecided{};
    if (!unit.dimensions.empty())
      for (Value& item : result.items) item.unit = unit;
    return result;
  }
  if (result.unit) throw Undecided{};
  if (!unit.dimensions.empty()) result.unit = unit;
  return result;
}

Value Evaluator::group(const Node& node) {
  Value result{.kind = Value::Kind::kGroup, .brackets = node.name};
  for (const auto& child : node.children) {
    result.items.push_back(value(*child));
    if (result.items.back().kind == Value::Kind::kList) throw Undecided{};
  }
  const bool is_matrix =
      node.name == "[]" && std::all_of(result.items.begin(), result.items.end(), [&](const Value& item) {
        return item.kind == Value::Kind::kGroup && item.brackets == "[]" &&
               item.items.size() == result.items[0].items.size();
      });
  if (!is_matrix) return result;
  Value matrix{.kind = Value::Kind::kMatrix, .columns = result.items[0].items.size()};
  for (Value& row : result.items)
    for (Value& cell : row.items) {
      if (cell.kind != Value::Kind::kScalar) throw Undecided{};
      matrix.items.push_back(std::move(cell));
    }
  return matrix;
}

Form Evaluator::scalar(const Node& node) {
  algebra_.budget().charge(300);
  const auto child = [&](size_t i) { return scalar(*node.children[i]); };
  switch (node.kind) {
    case Kind::kNumber:
      return algebra_.number(node.value);
    case Kind::kVariable:
      if (const auto counter = counters_.find(node.name); counter != counters_.end())
        return algebra_.number(counter->second);
      return algebra_.variable(node.name);
    case Kind::kConstant:
      if (const auto counter = counters_.find(node.name); counter != counters_.end())
        return algebra_.number(counter->second);
      if (node.name == "pi") return algebra_.pi();
      if (node.name == "e") return algebra_.euler();
      if (node.name == "i") return algebra_.imaginary();
      throw Undecided{};
    case Kind::kSum: {
      Form sum = child(0);
      for (size_t i = 1; i < node.children.size(); ++i) sum = algebra_.add(sum, child(i));
      return sum;
    }
    case Kind::kNegative:
      return algebra_.scale(child(0), Rational(-1));
    case Kind::kProduct:
      return algebra_.multiply(child(0), child(1));
    case Kind::kQuotient:
      return algebra_.divide(child(0), child(1));
    case Kind::kPower:
      return algebra_.power(child(0), child(1));
    case Kind::kFunction:
      return function(node);
    case Kind::kPercent:
      return algebra_.scale(child(0), Rational(Integer(1), Integer(100)));
    case Kind::kDegree:
      if (!in_angle_) return child(0);
      return algebra_.multiply(algebra_.scale(child(0), Rational(Integer(1), Integer(180))), algebra_.pi());
    case Kind::kPlusMinus: {
      if (plus_minus_ == 0) throw Undecided{};
      const int sign = node.name == "mp" ? -plus_minus_ : plus_minus_;
      const Form last = algebra_.scale(child(node.children.size() - 1), Rational(sign));
      return node.children.size() == 1 ? last : algebra_.add(child(0), last);
    }
    default:
      throw Undecided{};
  }
}

Form Evaluator::trigonometric(const std::string& name, const Form& a) {
  if (name == "sin") return algebra_.sine(a);
  if (name == "cos") return algebra_.cosine(a);
  if (name == "sec") return algebra_.invert(algebra_.cosine(a));
  if (name == "csc") return algebra_.invert(algebra_.sine(a));
  if (name == "cis") return algebra_.add(algebra_.cosine(a), algebra_.multiply(algebra_.imaginary(), algebra_.sine(a)));
  if (name == "tan") return algebra_.divide(algebra_.sine(a), algebra_.cosine(a));
  return algebra_.divide(algebra_.cosine(a), algebra_.sine(a));  // cot
}

/// Evaluates \sum_{k=1}^{10} k term by term; children are the term, the counter and its bounds.
Form Evaluator::big_operator(const Node& node) {
  constexpr int64_t kMaxTerms = 1000;
  const std::optional<Rational> low = algebra_.as_rational(scalar(*node.children[2])),
                                high = algebra_.as_rational(scalar(*node.children[3]));
  const std::string& counter = node.children[1]->name;
  if (!low || !high || !low->is_integer() || !high->is_integer() || *high - *low > Rational(kMaxTerms) ||
      counters_.contains(counter))
    throw Undecided{};
  const bool is_sum = node.name == "sum";
  Form result = algebra_.number(Rational(is_sum ? 0 : 1));
  for (Rational index = *low; index <= *high; index = index + Rational(1)) {
    counters_[counter] = index;
    const Form term = scalar(*node.children[0]);
    result = is_sum ? algebra_.add(result, term) : algebra_.multiply(result, term);
  }
  counters_.erase(counter);
  return result;
}

/// True for \sqrt{(x - 2)^2}, which is |x - 2| because variables are real.
bool Evaluator::is_square_of_variables(const Node& root) {
  const Node& inner = *root.children[0];
  if (inner.kind != Kind::kPower || inner.children[1]->kind != Kind::kNumber || inner.children[1]->value != Rational(2))
    return false;
  const Form base = scalar(*inner.children[0]);
  return algebra_.has_variables(base) && is_one(base.denominator) && !algebra_.contains_imaginary(base.numerator);
}

Form Evaluator::function(const Node& node) {
  const std::string& name = node.name;
  if (name == "det") return determinant(node);
  if (name == "sum" || name == "prod") return big_operator(node);
  const bool is_angle = name == "sin" || name == "cos" || name == "tan" || name == "cot" || name == "sec" ||
                        name == "csc" || name == "cis";
  const bool was_in_angle = std::exchange(in_angle_, in_angle_ || is_angle);
  std::vector<Form> arguments;
  for (const auto& child : node.children) arguments.push_back(scalar(*child));
  in_angle_ = was_in_angle;
  const Form& a = arguments.at(0);
  if (is_angle) return trigonometric(name, a);
  if (name == "asin" || name == "acos" || name == "atan") return algebra_.inverse_trigonometric(name, a);
  if (name == "root") {
    if (arguments.size() == 1)
      return is_square_of_variables(node) ? algebra_.absolute(scalar(*node.children[0]->children[0]))
                                          : algebra_.root(a, 2);
    const std::optional<Rational> degree = algebra_.as_rational(arguments[1]);
    if (!degree) return algebra_.power(a, algebra_.invert(arguments[1]));
    if (!degree->is_integer()) throw Undecided{};
    return algebra_.root(a, degree->numerator().to_int64());
  }
  if (name == "abs") return algebra_.absolute(a);
  if (name == "floor" || name == "ceil") return algebra_.floor(a, name == "ceil");
  if (name == "factorial") return algebra_.factorial(a);
  if (name == "ln") return algebra_.logarithm(a);
  if (name == "log") {
    const Form base = arguments.size() > 1 ? arguments[1] : algebra_.number(Rational(10));
    return algebra_.divide(algebra_.logarithm(a), algebra_.logarithm(base));
  }
  if (name == "exp") return algebra_.power(algebra_.euler(), a);
  if (name == "sinh" || name == "cosh" || name == "tanh") {
    const Form growing = algebra_.power(algebra_.euler(), a),
               decaying = algebra_.power(algebra_.euler(), algebra_.scale(a, Rational(-1)));
    const Form difference = algebra_.subtract(growing, decaying), sum = algebra_.add(growing, decaying);
    if (name == "tanh") return algebra_.divide(difference, sum);
    return algebra_.scale(name == "sinh" ? difference : sum, Rational(Integer(1), Integer(2)));
  }
  if (arguments.size() < 2) throw Undecided{};
  if (name == "apply") return algebra_.function(name, std::move(arguments));
  if (name == "binomial") return algebra_.binomial(a, arguments[1]);
  if (name == "permutation")
    return algebra_.multiply(algebra_.binomial(a, arguments[1]), algebra_.factorial(arguments[1]));
  Form result = a;
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (name == "gcd" || name == "lcm") {
      result = algebra_.greatest_common_divisor(result, arguments[i], name == "lcm");
    } else if (name == "max" || name == "min") {
      const std::optional<int> order = compare(result, arguments[i]);
      if (!order) throw Undecided{};
      if ((*order < 0) == (name == "max")) result = arguments[i];
    } else {
      throw Undecided{};
    }
  }
  return result;
}

std::string Evaluator::to_string(const Value& value) const {
  constexpr size_t kMaxLength = 1000;
  std::string text, separator;
  const auto join_items = [&](const char* between) {
    std::string result;
    for (const Value& item : value.items) {
      if (result.size() > kMaxLength) return result + "...";
      result += (result.empty() ? "" : between) + to_string(item);
    }
    return result;
  };
  switch (value.kind) {
    case Value::Kind::kScalar:
      text = algebra_.to_string(value.form) + (value.is_percent ? "%" : "");
      break;
    case Value::Kind::kInfinity:
      text = algebra_.to_string(value.form) == "1" ? "infinity" : "-infinity";
      break;
    case Value::Kind::kGroup:
      text = value.brackets.substr(0, 1) + join_items(", ") + value.brackets.substr(1);
      break;
    case Value::Kind::kSet:
      text = "{" + join_items(", ") + "}";
      break;
    case Value::Kind::kList:
      text = join_items(", ");
      break;
    case Value::Kind::kMatrix: {
      for (size_t i = 0; i < value.items.size() && text.size() < kMaxLength; ++i)
        text += (i == 0 ? "" : i % value.columns == 0 ? "; " : ", ") + to_string(value.items[i]);
      text = "[" + text + "]";
      break;
    }
    case Value::Kind::kRatio:
      text = join_items(":");
      break;
    case Value::Kind::kEquation:
      text = algebra_.to_string(value.form) + " = 0";
      break;
    case Value::Kind::kInequality:
      text = algebra_.to_string(value.form) + " " + value.brackets + " 0";
      break;
    case Value::Kind::kReals:
      for (const Piece& piece : value.reals) {
        if (text.size() > kMaxLength) break;
        text += std::string(text.empty() ? "" : " U ") + (piece.low.is_open ? "(" : "[") +
                (piece.low.value ? algebra_.to_string(*piece.low.value) : "-infinity") + ", " +
                (piece.high.value ? algebra_.to_string(*piece.high.value) : "infinity") +
                (piece.high.is_open ? ")" : "]");
      }
      if (text.empty()) text = "{}";
      break;
  }
  if (value.unit)
    for (const auto& [name, power] : value.unit->dimensions)
      text += " " + name + (power == 1 ? "" : "^" + std::to_string(power));
  if (value.unit && value.unit->factor != Rational(1)) text += " * " + value.unit->factor.to_string();
  if (!value.subject.empty()) text = value.subject + (value.kind == Value::Kind::kReals ? " in " : " = ") + text;
  return text;
}

}  // namespace keel::math
