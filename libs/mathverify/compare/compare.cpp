#include <algorithm>

#include "libs/mathverify/compare/value.h"

namespace keel::math {
namespace {

bool is_tuple(const Value& value) {
  return value.kind == Value::Kind::kGroup && (value.brackets == "()" || value.brackets == "<>");
}

/// True for y and f(x), since y = 2x + 1 and f(x) = 2x + 1 are one function; false for f(x) and g(x).
bool is_same_function(const std::string& a, const std::string& b) {
  const auto is_function = [](std::string name) {
    if (const size_t inverse = name.find("^-1("); inverse == 1) name.erase(1, 3);
    return name.size() == 4 && name[1] == '(' && name[3] == ')' &&
           std::string_view("xt").find(name[2]) != std::string_view::npos;
  };
  return (a == "y" && is_function(b)) || (b == "y" && is_function(a));
}

/// True for "k in Z", which declares a variable after a formula.
bool is_membership(const Value& value) {
  return value.kind == Value::Kind::kSet && value.items.size() == 1 && !value.subject.empty() &&
         value.subject[0] != '"' && value.is_number_set;
}

/// True if a list declares a variable. The "x in Z" of "1 < x < 5, x in Z" does not: it restricts the solutions.
bool has_declaration(const Value& value) {
  const auto restricts = [&](const Value& membership) {
    return std::any_of(value.items.begin(), value.items.end(), [&](const Value& item) {
      return item.subject == membership.subject &&
             (item.kind == Value::Kind::kReals || item.kind == Value::Kind::kList);
    });
  };
  return value.kind == Value::Kind::kList &&
         std::any_of(value.items.begin(), value.items.end(),
                     [&](const Value& item) { return is_membership(item) && !restricts(item); });
}

std::vector<Value> memberships(const Value& list) {
  std::vector<Value> result;
  std::copy_if(list.items.begin(), list.items.end(), std::back_inserter(result), is_membership);
  return result;
}

Value without_memberships(Value list) {
  std::erase_if(list.items, is_membership);
  return list.items.size() == 1 ? list.items[0] : list;
}

/// Drops the indices of x_1 = 2, x_2 = 3, which are two values of x.
std::vector<Value> without_indices(std::vector<Value> items) {
  const auto stem = [](const Value& item) { return item.subject.substr(0, item.subject.find('_')); };
  for (const Value& item : items)
    if (item.subject.empty() || stem(item) != stem(items[0])) return items;
  for (Value& item : items) item.subject = stem(item);
  return items;
}

}  // namespace

bool Comparison::equal(const Value& gold, const Value& answer) {
  algebra_.budget().charge(400);
  const auto is_word = [](const Value& value) { return value.subject.starts_with('"'); };
  if (has_declaration(gold) != has_declaration(answer))
    return equal(without_memberships(gold), without_memberships(answer));
  if (has_declaration(gold)) {
    const Value left = without_memberships(gold), right = without_memberships(answer);
    const bool has_rest =
        !(left.kind == Value::Kind::kList && left.items.empty()) && !has_declaration(left) && !has_declaration(right);
    if (has_rest) return unordered(memberships(gold), memberships(answer), false) && equal(left, right);
  }
  if (!gold.subject.empty() && !answer.subject.empty() && gold.subject != answer.subject &&
      is_word(gold) == is_word(answer) && !is_same_function(gold.subject, answer.subject))
    return gold.equation && answer.equation && proportional(*gold.equation, *answer.equation, false);
  if (gold.kind == Value::Kind::kEquation || answer.kind == Value::Kind::kEquation) {
    const std::optional<Form> left = gold.kind == Value::Kind::kEquation ? gold.form : gold.equation;
    const std::optional<Form> right = answer.kind == Value::Kind::kEquation ? answer.form : answer.equation;
    return left && right && proportional(*left, *right, false);
  }
  return gold.kind == answer.kind ? same_kind(gold, answer) : different_kinds(gold, answer);
}

bool Comparison::same_kind(const Value& gold, const Value& answer) {
  switch (gold.kind) {
    case Value::Kind::kScalar:
      return scalars(gold, answer);
    case Value::Kind::kInfinity:
      return algebra_.equal(gold.form, answer.form);
    case Value::Kind::kGroup: {
      // Two numbers in round or square brackets may be an interval, so the brackets count; angle brackets are a vector.
      const bool same =
          gold.brackets == answer.brackets || (is_tuple(gold) && is_tuple(answer)) || gold.items.size() > 2;
      return same && ordered(gold.items, answer.items);
    }
    case Value::Kind::kSet:
      return unordered(gold.items, answer.items, true);
    case Value::Kind::kList: {
      if (gold.is_alternative != answer.is_alternative &&
          !(gold.is_alternative ? may_be_either(answer, gold) : may_be_either(gold, answer)))
        return false;
      const std::optional<std::vector<Value>> left = assigned_values(gold), right = assigned_values(answer);
      if (left && right) return ordered(*left, *right);
      if (left) return ordered(*left, answer.items);
      if (right) return ordered(gold.items, *right);
      return unordered(without_indices(gold.items), without_indices(answer.items), false);
    }
    case Value::Kind::kReals:
      return evaluator_.equal(gold.reals, answer.reals);
    case Value::Kind::kMatrix:
      return gold.columns == answer.columns && ordered(gold.items, answer.items);
    case Value::Kind::kRatio:
      return ratios(gold, answer);
    case Value::Kind::kInequality:
      return gold.brackets == answer.brackets && proportional(gold.form, answer.form, gold.brackets != "!=");
    default:
      return false;
  }
}

bool Comparison::different_kinds(const Value& gold, const Value& answer) {
  const auto match_kinds = [&](Value::Kind a, Value::Kind b) -> std::pair<const Value*, const Value*> {
    if (gold.kind == a && answer.kind == b) return {&gold, &answer};
    if (gold.kind == b && answer.kind == a) return {&answer, &gold};
    return {nullptr, nullptr};
  };
  for (const Value::Kind kind : {Value::Kind::kList, Value::Kind::kGroup})  // {(2, 3)}
    if (const auto [other, set] = match_kinds(kind, Value::Kind::kSet); other && set->items.size() == 1)
      return set->items[0].kind == Value::Kind::kGroup && equal(*other, set->items[0]);
  if (const auto [list, set] = match_kinds(Value::Kind::kList, Value::Kind::kSet); list)  // x = 1, y = 2 is not a set
    return !assigned_values(*list) && unordered(gold.items, answer.items, true);
  if (const auto [list, group] = match_kinds(Value::Kind::kList, Value::Kind::kGroup); list) {
    const std::optional<RealSet> interval = evaluator_.as_reals(*group);
    const std::optional<RealSet> set = interval ? evaluator_.to_single_set(*list) : std::nullopt;
    if (set && evaluator_.equal(*set, *interval)) return true;  // x > 1, x < 3
    if (!is_tuple(*group) || list->is_alternative) return false;
    const std::optional<std::vector<Value>> values = assigned_values(*list);
    const bool has_subject =
        std::any_of(list->items.begin(), list->items.end(), [](const Value& item) { return !item.subject.empty(); });
    if (!values && has_subject) return false;  // x = 2 or x = 3 is not a pair
    const std::optional<std::vector<Value>> named = values ? assigned_values(*group) : std::nullopt;
    return ordered(values ? *values : list->items, named ? *named : group->items);
  }
  if (const auto [scalar, set] = match_kinds(Value::Kind::kScalar, Value::Kind::kSet); scalar)
    return set->items.size() == 1 && set->items[0].kind == Value::Kind::kScalar && equal(*scalar, set->items[0]);
  if (const auto [matrix, group] = match_kinds(Value::Kind::kMatrix, Value::Kind::kGroup);
      matrix) {  // a column is a vector
    const bool is_vector = is_tuple(*group) || group->brackets == "[]";
    const bool is_row = matrix->columns == matrix->items.size() && group->brackets == "[]";
    return ((matrix->columns == 1 && is_vector) || is_row) && ordered(matrix->items, group->items);
  }
  if (const auto [group, scalar] = match_kinds(Value::Kind::kGroup, Value::Kind::kScalar); group && is_tuple(*group)) {
    const std::optional<std::vector<Value>> vector = coordinates(scalar->form);
    return vector && !scalar->unit && !scalar->is_percent && along_axes(*vector, group->items);
  }
  if (const auto [matrix, scalar] = match_kinds(Value::Kind::kMatrix, Value::Kind::kScalar);
      matrix && matrix->columns == 1) {
    const std::optional<std::vector<Value>> vector = coordinates(scalar->form);
    return vector && !scalar->unit && !scalar->is_percent && along_axes(*vector, matrix->items);
  }
  if (const auto [ratio, scalar] = match_kinds(Value::Kind::kRatio, Value::Kind::kScalar); ratio) {
    if (ratio->is_time && scalar->unit) return times(*ratio, *scalar);
    if (ratio->items.size() != 2 || ratio->is_time || scalar->is_percent || scalar->unit) return false;
    for (const Value& item : ratio->items)
      if (item.kind != Value::Kind::kScalar || item.unit || item.is_percent) return false;
    const std::optional<int> denominator_sign = algebra_.sign(ratio->items[1].form);
    if (!denominator_sign || *denominator_sign == 0) return false;
    return algebra_.equal(ratio->items[0].form, algebra_.multiply(ratio->items[1].form, scalar->form));
  }
  if (const auto [reals, scalar] = match_kinds(Value::Kind::kReals, Value::Kind::kScalar);
      reals && !scalar->unit && !scalar->is_percent) {
    const bool is_point = reals->reals.size() == 1 && reals->reals[0].low.value && !reals->reals[0].low.is_open;
    const Value point{.kind = Value::Kind::kSet, .items = {{.form = scalar->form}}};
    return is_point && evaluator_.equal(reals->reals, evaluator_.as_reals(point).value_or(RealSet{}));
  }
  if (const auto [list, reals] = match_kinds(Value::Kind::kList, Value::Kind::kReals); list) {
    const std::optional<RealSet> set = evaluator_.to_single_set(*list);
    return set && evaluator_.equal(*set, reals->reals);
  }
  const bool is_set = gold.kind == Value::Kind::kReals || answer.kind == Value::Kind::kReals;
  if (!is_set) return false;
  const std::optional<RealSet> left = evaluator_.as_reals(gold), right = evaluator_.as_reals(answer);
  return left && right && evaluator_.equal(*left, *right);
}

/// Returns "x = 2, y = 3" as (2, 3), in the order of the names; nullopt unless every item is about a different
/// variable.
std::optional<std::vector<Value>> Comparison::assigned_values(const Value& value) {
  std::vector<Value> items = value.items;
  if (value.is_alternative) return std::nullopt;
  for (const Value& item : items)
    if (item.subject.empty() || item.kind == Value::Kind::kReals) return std::nullopt;
  std::sort(items.begin(), items.end(), [](const Value& a, const Value& b) { return a.subject < b.subject; });
  const auto stem = [](const Value& item) { return item.subject.substr(0, item.subject.find('_')); };
  for (size_t i = 0; i + 1 < items.size(); ++i)  // x_1 and x_2 are two values of x
    if (stem(items[i]) == stem(items[i + 1])) return std::nullopt;
  return items;
}

/// True if "1, 2" may list the same solutions as "1 or 2"; but "x = 1, y = 2", the choices "A, C" and "p and q" hold
/// together.
bool Comparison::may_be_either(const Value& list, const Value& either) {
  const auto letter = [&](const Value& item) {  // 0 if it is not a letter
    if (item.kind != Value::Kind::kScalar || item.form.numerator.size() != 1 || !item.subject.empty()) return '\0';
    const Monomial& monomial = item.form.numerator.begin()->first;
    if (monomial.size() != 1 || algebra_.atom(monomial[0].first).kind != AtomKind::kVariable) return '\0';
    const std::string& name = algebra_.atom(monomial[0].first).name;
    return name.size() == 1 ? name[0] : '\0';
  };
  const auto is_letter = [&](const Value& item) { return letter(item) != '\0'; };
  const auto is_capital = [&](const Value& item) { return letter(item) >= 'A' && letter(item) <= 'Z'; };
  const auto is_equation = [](const Value& item) { return item.kind == Value::Kind::kEquation; };
  const auto all = [](const Value& value, const auto& holds) {
    return std::all_of(value.items.begin(), value.items.end(), holds);
  };
  if (std::any_of(list.items.begin(), list.items.end(), is_equation)) return false;
  return !assigned_values(list) && !all(list, is_capital) && !(all(list, is_letter) && all(either, is_letter));
}

bool Comparison::ordered(const std::vector<Value>& gold, const std::vector<Value>& answer) {
  if (gold.size() != answer.size()) return false;
  for (size_t i = 0; i < gold.size(); ++i)
    if (!equal(gold[i], answer[i])) return false;
  return true;
}

/// Equality is transitive, so greedy matching suffices.
bool Comparison::unordered(const std::vector<Value>& gold, const std::vector<Value>& answer, bool as_sets) {
  const auto distinct = [&](const std::vector<Value>& items) {
    std::vector<Value> unique_items;
    for (const Value& item : items)
      if (!as_sets || std::none_of(unique_items.begin(), unique_items.end(),
                                   [&](const Value& other) { return equal(item, other); }))
        unique_items.push_back(item);
    return unique_items;
  };
  const auto matches = [&](const Value& a, const Value& b) {  // {1, {2}} is not {1, 2}
    return (!as_sets || (a.kind == Value::Kind::kSet) == (b.kind == Value::Kind::kSet)) && equal(a, b);
  };
  const std::vector<Value> left = distinct(gold), right = distinct(answer);
  if (left.size() != right.size()) return false;
  std::vector<bool> used(right.size(), false);
  for (const Value& item : left) {
    size_t partner = 0;
    while (partner < right.size() && (used[partner] || !matches(item, right[partner]))) ++partner;
    if (partner == right.size()) return false;
    used[partner] = true;
  }
  return true;
}

/// Interprets the letters of 5 m and 5 m/s as units.
std::optional<Value> Comparison::with_letter_as_unit(const Value& value) {
  if (value.form.numerator.size() != 1 || value.is_percent || value.unit) return std::nullopt;
  const auto& [monomial, coefficient] = *value.form.numerator.begin();
  static constexpr std::string_view kLetters[] = {"m", "g", "s", "h", "L", "l", "N", "J", "W", "V", "C", "F"};
  std::string unit_text;
  Monomial number;
  for (const auto& [id, power] : monomial) {
    const Atom& atom = algebra_.atom(id);
    if (atom.kind != AtomKind::kVariable) {
      number.emplace_back(id, power);
      continue;
    }
    if (!power.is_integer() || std::abs(power.numerator) > 3 ||
        std::find(std::begin(kLetters), std::end(kLetters), atom.name) == std::end(kLetters))
      return std::nullopt;
    unit_text += " " + atom.name + "^" + std::to_string(power.numerator);
  }
  if (unit_text.empty()) return std::nullopt;
  Value result = value;
  result.form.numerator = {{number, coefficient}};
  result.unit = parse_unit(unit_text);
  return result;
}

/// Returns 3i - 4j as (3, -4, 0): a sum of multiples of i, j and k, with a j or k in it. (i alone is a complex number.)
std::optional<std::vector<Value>> Comparison::coordinates(const Form& form) {
  std::vector<Value> result(3);
  bool is_vector = false;
  if (!is_one(form.denominator)) return std::nullopt;
  for (const auto& [monomial, coefficient] : form.numerator) {
    size_t axis = 3;
    Monomial rest;
    for (const auto& [id, power] : monomial) {
      const Atom& atom = algebra_.atom(id);
      const size_t atom_axis = atom.kind == AtomKind::kImaginary                      ? 0
                               : atom.kind == AtomKind::kVariable && atom.name == "j" ? 1
                               : atom.kind == AtomKind::kVariable && atom.name == "k" ? 2
                                                                                      : 3;
      if (atom_axis == 3) {
        rest.emplace_back(id, power);
        continue;
      }
      if (axis != 3 || power != Exponent{1, 1}) return std::nullopt;
      axis = atom_axis;
    }
    if (axis == 3) return std::nullopt;
    is_vector |= axis != 0;
    result[axis].form.numerator.emplace(rest, coefficient);
  }
  if (!is_vector) return std::nullopt;
  return result;
}

bool Comparison::along_axes(std::vector<Value> vector, const std::vector<Value>& items) {
  if (items.size() == 2 && vector[2].form.numerator.empty()) vector.pop_back();
  return ordered(vector, items);
}

/// Compares angles: 90 degrees is pi/2, with or without "rad"; nullopt unless one side is in degrees and the other in
/// radians.
std::optional<bool> Comparison::angles(const Value& gold, const Value& answer) {
  const auto is_in = [](const Value& value, const char* name) {
    return value.unit && value.unit->dimensions == std::map<std::string, int>{{name, 1}};
  };
  const auto has_pi = [&](const Value& value) {
    return std::any_of(value.form.numerator.begin(), value.form.numerator.end(), [&](const auto& term) {
      return std::any_of(term.first.begin(), term.first.end(),
                         [&](const auto& each) { return algebra_.atom(each.first).kind == AtomKind::kPi; });
    });
  };
  const Value &degrees = is_in(gold, "degree") ? gold : answer, &other = &degrees == &gold ? answer : gold;
  const bool are_radians = is_in(other, "rad") || (!other.unit && !other.is_percent && has_pi(other));
  if (!is_in(degrees, "degree") || !are_radians) return std::nullopt;
  const Form angle = algebra_.multiply(algebra_.scale(degrees.form, Rational(Integer(1), Integer(180))), algebra_.pi());
  return algebra_.equal(angle, other.form);
}

/// Compares temperatures: 100 degrees Celsius are 212 Fahrenheit and 373.15 K; nullopt unless the scales differ.
std::optional<bool> Comparison::temperatures(const Value& gold, const Value& answer) {
  const auto kelvins = [&](const Value& value) -> std::optional<Form> {
    if (value.unit->dimensions.size() != 1 || value.unit->dimensions.begin()->second != 1) return std::nullopt;
    const std::string& scale = value.unit->dimensions.begin()->first;
    if (scale == "k") return value.form;
    if (scale != "c" && scale != "f") return std::nullopt;
    const Form celsius_zero = algebra_.number(Rational(Integer(27315), Integer(100)));
    if (scale == "c") return algebra_.add(value.form, celsius_zero);
    const Form above_freezing = algebra_.subtract(value.form, algebra_.number(Rational(32)));
    return algebra_.add(algebra_.scale(above_freezing, Rational(Integer(5), Integer(9))), celsius_zero);
  };
  if (gold.unit->dimensions == answer.unit->dimensions) return std::nullopt;
  const std::optional<Form> left = kelvins(gold), right = kelvins(answer);
  if (!left || !right) return std::nullopt;
  return algebra_.equal(*left, *right);
}

bool Comparison::scalars(const Value& gold, const Value& answer) {
  const auto is_unnamed = [](const Value& value) { return value.unit && value.unit->dimensions.contains("unit"); };
  if (is_unnamed(gold) != is_unnamed(answer)) {  // 5 square units may be 5 cm^2
    Value left = gold, right = answer;
    left.unit.reset(), right.unit.reset();
    return scalars(left, right);
  }
  if (const std::optional<bool> same = angles(gold, answer)) return *same;
  if (gold.unit && answer.unit) {
    if (const std::optional<bool> same = temperatures(gold, answer)) return *same;
    const Unit left = resolve_pounds(*gold.unit, *answer.unit), right = resolve_pounds(*answer.unit, *gold.unit);
    if (left.dimensions != right.dimensions || gold.is_percent || answer.is_percent) return false;
    return algebra_.equal(algebra_.scale(gold.form, left.factor), algebra_.scale(answer.form, right.factor));
  }
  if (gold.unit || answer.unit) {
    if (gold.is_percent || answer.is_percent) return false;
    const Value& bare = gold.unit ? answer : gold;
    if (const std::optional<Value> lettered = with_letter_as_unit(bare))
      if (scalars(gold.unit ? gold : answer, *lettered)) return true;
  }
  if (gold.is_percent != answer.is_percent) {
    const Value &percent = gold.is_percent ? gold : answer, &plain = gold.is_percent ? answer : gold;
    if (algebra_.equal(algebra_.scale(percent.form, Rational(Integer(1), Integer(100))), plain.form)) return true;
    // "50" for 50% omits the sign, but 1 for 1%, 0.5 for 0.5% or 12.5 for 12.5% may mean the plain number.
    const std::optional<Rational> number = algebra_.as_rational(percent.form);
    return number && number->is_integer() && number->abs() > Rational(1) && algebra_.equal(percent.form, plain.form);
  }
  return algebra_.equal(gold.form, answer.form);
}

/// Compares times: 3:30 PM is 15:30, and 3 PM is 3:00 PM.
bool Comparison::times(const Value& gold, const Value& answer) {
  enum class DayHalf { kUnset, kAm, kPm, kOtherUnit };
  struct Clock {
    Rational minutes;
    DayHalf half = DayHalf::kUnset;
  };
  const auto clock = [&](const Value& value) -> std::optional<Clock> {
    Clock result;
    const bool is_hour = value.kind == Value::Kind::kScalar;
    if (!is_hour && value.items.size() != 2) return std::nullopt;
    const std::optional<Rational> hour = algebra_.as_rational(is_hour ? value.form : value.items[0].form);
    const std::optional<Rational> minute = algebra_.as_rational(is_hour ? Form{} : value.items[1].form);
    if (!hour || !minute || !hour->is_integer() || *hour > Rational(24)) return std::nullopt;
    if (value.unit)
      result.half = value.unit->dimensions.contains("am")   ? DayHalf::kAm
                    : value.unit->dimensions.contains("pm") ? DayHalf::kPm
                                                            : DayHalf::kOtherUnit;
    const bool has_half = result.half != DayHalf::kUnset;
    if (result.half == DayHalf::kOtherUnit || (is_hour && !has_half)) return std::nullopt;
    Rational hours = *hour;
    if (has_half && hours > Rational(12)) return std::nullopt;
    if (has_half && hours == Rational(12)) hours = Rational(0);
    if (result.half == DayHalf::kPm) hours = hours + Rational(12);
    result.minutes = hours * Rational(60) + *minute;
    return result;
  };
  const std::optional<Clock> left = clock(gold), right = clock(answer);
  return left && right && (left->half != DayHalf::kUnset || right->half != DayHalf::kUnset) &&
         left->minutes == right->minutes;
}

bool Comparison::ratios(const Value& gold, const Value& answer) {
  if (gold.is_time && answer.is_time && times(gold, answer)) return true;
  if (gold.unit && answer.unit && gold.unit->dimensions != answer.unit->dimensions) return false;
  if ((gold.unit || answer.unit) && !(gold.is_time && answer.is_time)) return false;  // 3:4 pm is neither
  if (ordered(gold.items, answer.items)) return true;
  if (gold.is_time || answer.is_time || gold.items.size() != answer.items.size()) return false;
  if (gold.brackets == "to" && answer.brackets == "to") return false;  // 3 to 4 may be a range
  for (const std::vector<Value>* items : {&gold.items, &answer.items})
    for (const Value& item : *items) {
      if (item.kind != Value::Kind::kScalar || item.unit || item.is_percent) return false;
      const std::optional<int> sign = algebra_.sign(item.form);
      if (!sign || *sign == 0) return false;
    }
  for (size_t i = 1; i < gold.items.size(); ++i)
    if (!algebra_.equal(algebra_.multiply(gold.items[0].form, answer.items[i].form),
                        algebra_.multiply(gold.items[i].form, answer.items[0].form)))
      return false;
  return true;
}

bool Comparison::has_inverses(const Polynomial& a) const {
  for (const auto& [monomial, coefficient] : a)
    for (const auto& [id, exponent] : monomial)
      if (algebra_.atom(id).kind == AtomKind::kVariable && exponent.numerator < 0) return true;
  return false;
}

/// Multiplies out denominators: y - 1/x = 0 becomes xy - 1 = 0.
Form Comparison::clear_inverses(const Form& a) {
  std::map<int, Exponent> lifts;
  for (const auto& [monomial, coefficient] : a.numerator)
    for (const auto& [id, exponent] : monomial)
      if (algebra_.atom(id).kind == AtomKind::kVariable && exponent.numerator < 0 && exponent.is_integer())
        lifts[id].numerator = std::max(lifts[id].numerator, -exponent.numerator);
  Form factor = algebra_.number(Rational(1));
  for (const auto& [id, lift] : lifts)
    factor =
        algebra_.multiply(factor, algebra_.integer_power(algebra_.variable(algebra_.atom(id).name), lift.numerator));
  return algebra_.multiply(Form{a.numerator}, factor);
}

/// True if a = c b for a constant c != 0 (c > 0 if `positive_only`), so the equations a = 0 and b = 0 are equivalent.
bool Comparison::proportional(const Form& a, const Form& b, bool positive_only) {
  const auto leading_terms = [&](const Polynomial& p, const Monomial* lead_monomial) {
    std::map<Monomial, Polynomial> groups;
    for (const auto& [monomial, coefficient] : p) {
      Monomial variables, constants;
      for (const auto& factor : monomial)
        (algebra_.atom(factor.first).has_variables ? variables : constants).push_back(factor);
      groups[variables].emplace(constants, coefficient);
    }
    if (groups.empty()) throw Undecided{};
    const auto found = lead_monomial != nullptr ? groups.find(*lead_monomial) : std::prev(groups.end());
    return found == groups.end() ? std::pair<Monomial, Polynomial>{} : std::pair<Monomial, Polynomial>(*found);
  };
  if (!positive_only && has_inverses(a.numerator) != has_inverses(b.numerator))
    return proportional(clear_inverses(a), clear_inverses(b), false);
  // In an equation a denominator can be dropped; in an inequality its sign matters.
  if (positive_only && (a.denominator.size() > 1 || b.denominator.size() > 1)) return algebra_.equal(a, b);
  const auto [monomial, left] = leading_terms(a.numerator, nullptr);
  const auto [same, right] = leading_terms(b.numerator, &monomial);
  if (right.empty() || monomial.empty()) return false;
  const Form x{left}, y{right};
  if (positive_only) {
    const std::optional<int> sign = algebra_.sign(algebra_.divide(x, y));
    if (!sign || *sign <= 0) return false;
  }
  return algebra_.equal(algebra_.multiply(Form{a.numerator}, y), algebra_.multiply(Form{b.numerator}, x));
}

}  // namespace keel::math
