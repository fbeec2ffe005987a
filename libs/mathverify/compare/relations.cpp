// Equations, inequalities and sets of real numbers.

#include <algorithm>

#include "libs/mathverify/compare/value.h"

namespace keel::math {
namespace {

using Kind = Node::Kind;

bool is_variable(const Node& node) { return node.kind == Kind::kVariable; }

/// True for dy/dx, a derivative and not a quotient of products.
bool is_derivative(const Node& node) {
  const auto is_differential = [](const Node& each) {
    return each.kind == Kind::kProduct && is_variable(*each.children[0]) && each.children[0]->name == "d" &&
           is_variable(*each.children[1]);
  };
  return node.kind == Kind::kQuotient && is_differential(*node.children[0]) && is_differential(*node.children[1]);
}

}  // namespace

/// The left side that an equation defines: a variable, a segment AB, a function f(x), f(2), f'(2), P(A), or a word.
std::optional<std::string> Evaluator::subject_of(const Node& node) {
  if (is_variable(node)) return node.name;
  constexpr size_t kMaxArgument = 200;
  const auto printed = [&](const Node& part) {  // f(1) = 2 and f(2) = 2 differ
    std::string text = algebra_.to_string(scalar(part));
    if (text.size() > kMaxArgument) throw Undecided{};  // a truncated text could match others
    return text;
  };
  if (node.kind == Kind::kFunction && node.name == "apply") {
    std::string arguments;
    for (size_t i = 1; i < node.children.size(); ++i) arguments += (i > 1 ? ", " : "") + printed(*node.children[i]);
    return node.children[0]->name + "(" + arguments + ")";
  }
  if (is_derivative(node))
    return "d" + node.children[0]->children[1]->name + "/d" + node.children[1]->children[1]->name;
  if (node.kind != Kind::kProduct) return std::nullopt;
  const Node& first = *node.children[0];
  const Node& head = first.kind == Kind::kPower ? *first.children[0] : first;
  static constexpr std::string_view kHeads = "hFGHPp";
  if (is_variable(head) && kHeads.find(head.name[0]) != std::string_view::npos &&
      head.name.find_first_not_of('\'', 1) == std::string::npos) {
    const Node& argument = *node.children[1];
    const std::string power = &head == &first ? "" : "^" + printed(*first.children[1]);
    if (is_variable(argument) || argument.kind == Kind::kNumber || argument.kind == Kind::kSum ||
        argument.kind == Kind::kNegative)
      return head.name + power + "(" + printed(argument) + ")";
  }
  const std::optional<std::string> left = subject_of(first), right = subject_of(*node.children[1]);
  const auto is_point = [](const std::optional<std::string>& name) {
    return name && std::all_of(name->begin(), name->end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  };
  if (is_point(left) && is_point(right)) return *left + *right;
  return std::nullopt;
}

Value Evaluator::relation(const Node& node) {
  size_t sides = node.children.size();
  for (size_t i = 0; i < node.names.size(); ++i) {
    if (node.names[i] != "~") continue;
    // "1/3 ~ 0.333" has the value 1/3, "x ~ 0.333" the value 0.333
    if (i == 0) return value(*node.children[subject_of(*node.children[0]) ? 1 : 0]);
    sides = i + 1;
    break;
  }
  const auto all = [&](const char* sign) {
    return std::all_of(node.names.begin(), node.names.begin() + static_cast<std::ptrdiff_t>(sides) - 1,
                       [&](const std::string& name) { return name == sign; });
  };
  if (all("=")) return equation(node, sides);
  if (sides == 2 && node.names[0] == "in") {
    Value set = value(*node.children[1]);
    const std::optional<std::string> subject = subject_of(*node.children[0]);
    if (!subject || set.kind == Value::Kind::kScalar) throw Undecided{};
    set.subject = *subject;
    return set;
  }
  std::vector<Value> parts;
  for (size_t i = 0; i + 1 < sides; ++i) {
    if (node.names[i] == "=" || node.names[i] == "in") throw Undecided{};
    parts.push_back(inequality(*node.children[i], node.names[i], *node.children[i + 1]));
  }
  if (parts.size() == 1) return parts[0];
  Value result = parts[0];
  for (const Value& part : parts) {
    if (part.kind != Value::Kind::kReals || part.subject != result.subject)
      return {.kind = Value::Kind::kList, .items = std::move(parts)};
    result.reals = intersection(result.reals, part.reals);
  }
  return result;
}

/// (x, y) = (1, 2) gives each item its name. Adjacent letters are sorted, so (y, x) = (1, 2) is (2, 1). Others, such as
/// (r, theta) and (n, k), keep their order.
Value Evaluator::coordinates(const Node& names, Value values) {
  if (values.kind == Value::Kind::kScalar) throw Undecided{};
  if (values.kind != Value::Kind::kGroup) return values;
  std::vector<Value>& items = values.items;
  if (items.size() != names.children.size()) throw Undecided{};
  std::string letters;
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].subject = names.children[i]->name;
    for (size_t before = 0; before < i; ++before)
      if (items[before].subject == items[i].subject) throw Undecided{};
    if (items[i].subject.size() == 1) letters += items[i].subject;
  }
  std::sort(letters.begin(), letters.end());
  const bool are_adjacent = letters.size() == items.size() && letters.back() - letters.front() + 1u == items.size();
  if (are_adjacent)
    std::sort(items.begin(), items.end(), [](const Value& a, const Value& b) { return a.subject < b.subject; });
  return values;
}

Value Evaluator::equation(const Node& node, size_t sides) {
  const Node &first = *node.children[0], &last = *node.children[sides - 1];
  const auto equal_scalars = [&](size_t from) {
    const Form expected = scalar(*node.children[from]);
    for (size_t i = from + 1; i < sides; ++i)
      if (!algebra_.equal(expected, scalar(*node.children[i]))) return false;
    return true;
  };
  const bool is_vector = first.kind == Kind::kGroup && std::all_of(first.children.begin(), first.children.end(),
                                                                   [](const auto& each) { return is_variable(*each); });
  if (is_vector && sides == 2) return coordinates(first, value(last));
  std::optional<std::string> subject = subject_of(first);
  const Node* side = &last;
  if (!subject && sides == 2 && subject_of(last)) {  // 5 = x
    subject = subject_of(last);
    side = &first;
  }
  if (subject) {
    Value result = value(*side);
    if (sides > 2 && !equal_scalars(1)) throw Undecided{};
    const bool is_scalar = result.kind == Value::Kind::kScalar;
    const Node& left_side = side == &last ? first : last;
    if (is_scalar && !result.is_percent && !result.unit && is_variable(left_side) && (*subject)[0] != '"') {
      const Form variable = algebra_.variable(*subject);
      result.equation = algebra_.subtract(result.form, variable);
      const int id = variable.numerator.begin()->first[0].first;
      for (const Polynomial* part : {&result.form.numerator, &result.form.denominator})
        for (const auto& [monomial, coefficient] : *part)
          for (const auto& [each, exponent] : monomial)
            if (each == id) return {.kind = Value::Kind::kEquation, .form = *result.equation};  // x = 2x + 1
    }
    result.subject = *subject;
    return result;
  }
  const Form left = scalar(first), right = scalar(last);
  if (sides > 2 && !algebra_.has_variables(right) && equal_scalars(1)) return value(last);  // a + b = 2 + 3 = 5
  if (!algebra_.has_variables(left) && !algebra_.has_variables(right)) {                    // 2 + 3 = 5
    if (!equal_scalars(0)) throw Undecided{};
    return value(last);
  }
  if (sides != 2) throw Undecided{};
  return {.kind = Value::Kind::kEquation, .form = algebra_.subtract(left, right)};
}

/// Evaluates "x < 1 or x > 3" to a union and "x > 1 and x < 3" to an intersection; a comma keeps two statements.
Value Evaluator::combine_relations(const Node& node, Value list) {
  list.is_alternative = std::find(node.names.begin(), node.names.end(), "or") != node.names.end();
  const auto all_separators = [&](const char* word) {
    return std::all_of(node.names.begin(), node.names.end(), [&](const std::string& name) { return name == word; });
  };
  if (all_separators("or")) {  // "1/2 or 0.5" is one number, spelled twice
    const auto is_plain = [](const Value& item) {
      return item.kind == Value::Kind::kScalar && !item.unit && item.subject.empty();
    };
    const auto number = [&](const Value& item) {
      return item.is_percent ? algebra_.scale(item.form, Rational(Integer(1), Integer(100))) : item.form;
    };
    bool all_equal = true;
    for (const Value& item : list.items)
      all_equal = all_equal && is_plain(item) && algebra_.equal(number(item), number(list.items[0]));
    if (all_equal) return list.items[0];
  }
  if (all_separators("and"))
    if (std::optional<Value> sum = sum_quantities(list)) return *sum;
  const bool same = std::all_of(list.items.begin(), list.items.end(), [&](const Value& item) {
    return item.kind == Value::Kind::kReals && !item.subject.empty() && item.subject == list.items[0].subject;
  });
  if (!same) return list;
  for (const char* word : {"or", "and"}) {
    if (!all_separators(word)) continue;
    const bool is_intersection = std::string_view(word) == "and";
    Value result = list.items[0];
    for (const Value& item : list.items) {
      if (is_intersection)
        result.reals = intersection(result.reals, item.reals);
      else
        result.reals.insert(result.reals.end(), item.reals.begin(), item.reals.end());
    }
    result.reals = normalized(std::move(result.reals));
    return result;
  }
  return list;
}

/// Adds up "1 hour and 30 minutes": units of one kind, each smaller than the one before.
std::optional<Value> Evaluator::sum_quantities(const Value& list) {
  Value sum{.unit = Unit{}};
  for (size_t i = 0; i < list.items.size(); ++i) {
    const Value& item = list.items[i];
    if (item.kind != Value::Kind::kScalar || !item.unit || item.is_percent || !item.subject.empty())
      return std::nullopt;
    if (i > 0 && (item.unit->dimensions != sum.unit->dimensions || item.unit->factor >= list.items[i - 1].unit->factor))
      return std::nullopt;
    sum.unit->dimensions = item.unit->dimensions;
    sum.form = algebra_.add(sum.form, algebra_.scale(item.form, item.unit->factor));
  }
  return sum;
}

/// Orders two endpoints on the real line. For a low and a high end of one value, 0 means that both are closed, 1 that
/// one is open (the intervals touch), 2 that both are open (they do not).
int Evaluator::compare_endpoints(const Endpoint& a, const Endpoint& b, bool a_is_low, bool b_is_low) {
  constexpr int kApart = 2;
  const auto infinity_sign = [](const Endpoint& end, bool is_low) { return end.value ? 0 : is_low ? -1 : 1; };
  const int left = infinity_sign(a, a_is_low), right = infinity_sign(b, b_is_low);
  if (left != 0 || right != 0) return kApart * (left - right);
  const std::optional<int> order = compare(*a.value, *b.value);
  if (!order) throw Undecided{};
  if (*order != 0) return *order * kApart;
  const auto side = [](const Endpoint& end, bool is_low) { return !end.is_open ? 0 : is_low ? 1 : -1; };
  return side(a, a_is_low) - side(b, b_is_low);
}

RealSet Evaluator::normalized(RealSet pieces) {
  constexpr size_t kMaxPieces = 64;
  if (pieces.size() > kMaxPieces) throw Undecided{};
  RealSet sorted;
  for (Piece& piece : pieces) {
    if (compare_endpoints(piece.low, piece.high, true, false) > 0) continue;  // empty
    auto position = sorted.begin();
    while (position != sorted.end() && compare_endpoints(position->low, piece.low, true, true) < 0) ++position;
    sorted.insert(position, std::move(piece));
  }
  RealSet merged;
  for (Piece& piece : sorted) {
    // [1, 2) and [2, 3] touch; (1, 2) and (2, 3) leave 2 out.
    if (!merged.empty() && compare_endpoints(piece.low, merged.back().high, true, false) <= 1) {
      if (compare_endpoints(merged.back().high, piece.high, false, false) < 0) merged.back().high = piece.high;
    } else {
      merged.push_back(std::move(piece));
    }
  }
  return merged;
}

RealSet Evaluator::intersection(const RealSet& a, const RealSet& b) {
  RealSet result;
  constexpr size_t kMaxPairs = 256;
  if (a.size() * b.size() > kMaxPairs) throw Undecided{};
  for (const Piece& x : a)
    for (const Piece& y : b)
      result.push_back({compare_endpoints(x.low, y.low, true, true) >= 0 ? x.low : y.low,
                        compare_endpoints(x.high, y.high, false, false) <= 0 ? x.high : y.high});
  return normalized(std::move(result));
}

RealSet Evaluator::complement(const RealSet& a) {
  RealSet result;
  Endpoint low;
  for (const Piece& piece : a) {
    if (piece.low.value) result.push_back({low, {piece.low.value, !piece.low.is_open}});
    if (!piece.high.value) return normalized(std::move(result));
    low = {piece.high.value, !piece.high.is_open};
  }
  result.push_back({low, {}});
  return normalized(std::move(result));
}

std::optional<RealSet> Evaluator::as_reals(const Value& value) {
  if (value.kind == Value::Kind::kReals) return value.reals;
  const auto is_real = [&](const Value& item) {
    return item.kind == Value::Kind::kScalar && !item.is_percent && !item.unit && algebra_.sign(item.form).has_value();
  };
  if (value.kind == Value::Kind::kSet) {
    RealSet points;
    for (const Value& item : value.items) {
      if (!is_real(item)) return std::nullopt;
      points.push_back({{item.form, false}, {item.form, false}});
    }
    return normalized(std::move(points));
  }
  if (value.kind != Value::Kind::kGroup || value.items.size() != 2 || value.brackets == "<>") return std::nullopt;
  Piece piece;
  for (const bool low : {true, false}) {
    const Value& item = value.items[low ? 0 : 1];
    if (item.kind == Value::Kind::kInfinity) {
      const bool is_open = value.brackets[low ? 0 : 1] == (low ? '(' : ')');  // infinite endpoints must be open
      if (!is_open || algebra_.as_rational(item.form)->sign() != (low ? -1 : 1)) return std::nullopt;
      continue;
    }
    if (!is_real(item) || !item.subject.empty()) return std::nullopt;  // (x, y) = (1, 2) is a point
    (low ? piece.low : piece.high) = Endpoint{item.form, value.brackets[low ? 0 : 1] == (low ? '(' : ')')};
  }
  RealSet result = normalized({piece});
  if (result.empty()) return std::nullopt;
  return result;
}

std::optional<RealSet> Evaluator::to_single_set(const Value& list) {
  RealSet all, common{Piece{}};
  bool have_subject = true, disjoint = true;
  for (const Value& item : list.items) {
    const std::optional<RealSet> part = as_reals(item);
    if (!part || item.kind == Value::Kind::kSet || item.subject != list.items[0].subject) return std::nullopt;
    have_subject = have_subject && !item.subject.empty();
    disjoint = disjoint && intersection(all, *part).empty();
    common = intersection(common, *part);
    all.insert(all.end(), part->begin(), part->end());
  }
  if (!list.is_alternative && have_subject && !common.empty()) return common;
  if (!list.is_alternative && !disjoint) return std::nullopt;
  return normalized(std::move(all));
}

bool Evaluator::equal(const RealSet& a, const RealSet& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    for (const auto& [x, y] : {std::pair{&a[i].low, &b[i].low}, std::pair{&a[i].high, &b[i].high}}) {
      if (x->value.has_value() != y->value.has_value()) return false;
      if (x->value && (x->is_open != y->is_open || !algebra_.equal(*x->value, *y->value))) return false;
    }
  return true;
}

Value Evaluator::combine_sets(const Node& node) {
  const Value a = value(*node.children[0]), b = value(*node.children[1]);
  if (node.kind == Kind::kUnion && a.kind == Value::Kind::kSet && b.kind == Value::Kind::kSet) {
    Value result = a;
    result.items.insert(result.items.end(), b.items.begin(), b.items.end());
    return result;
  }
  const std::optional<RealSet> left = as_reals(a), right = as_reals(b);
  if (!left || !right) throw Undecided{};
  Value result{.kind = Value::Kind::kReals};
  if (node.kind == Kind::kUnion) {
    result.reals = *left;
    result.reals.insert(result.reals.end(), right->begin(), right->end());
    result.reals = normalized(std::move(result.reals));
  } else {
    result.reals = intersection(*left, node.kind == Kind::kIntersection ? *right : complement(*right));
  }
  return result;
}

Value Evaluator::set_builder(const Node& node) {
  const Node& left = *node.children[0];
  const Node& variable =
      left.kind == Kind::kRelation && left.names.size() == 1 && left.names[0] == "in" ? *left.children[0] : left;
  if (&variable != &left && left.children[1]->kind != Kind::kReals) throw Undecided{};
  Value condition = value(*node.children[1]);
  if (!is_variable(variable) || condition.kind != Value::Kind::kReals || condition.subject != variable.name)
    throw Undecided{};
  condition.subject.clear();
  return condition;
}

}  // namespace keel::math
