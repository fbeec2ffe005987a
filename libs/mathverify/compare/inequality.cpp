// Inequalities in one variable, solved where they are linear, quadratic, or about an absolute value.

#include "libs/mathverify/compare/value.h"

namespace keel::math {
namespace {

/// A polynomial in one variable (or absolute value): coefficients[k] belongs to its k-th power.
struct QuadraticInAtom {
  int id = -1;
  std::vector<Polynomial> coefficients{{}, {}, {}};
};

std::optional<QuadraticInAtom> as_quadratic(const Algebra& algebra, const Form& a) {
  QuadraticInAtom result;
  if (algebra.has_variables(a.denominator)) return std::nullopt;
  for (const auto& [monomial, coefficient] : a.numerator) {
    Monomial rest;
    size_t power = 0;
    for (const auto& [id, exponent] : monomial) {
      if (!algebra.atom(id).has_variables) {
        rest.emplace_back(id, exponent);
        continue;
      }
      const bool fits = (result.id < 0 || result.id == id) && exponent.is_integer() && exponent.numerator > 0 &&
                        exponent.numerator <= 2 && power == 0;
      if (!fits) return std::nullopt;
      result.id = id;
      power = static_cast<size_t>(exponent.numerator);
    }
    result.coefficients[power].emplace(rest, coefficient);
  }
  if (result.id < 0) return std::nullopt;
  return result;
}

}  // namespace

Value Evaluator::inequality(const Node& left, const std::string& sign, const Node& right) {
  const Value a = value(left), b = value(right);
  const bool is_less = sign == "<" || sign == "<=";
  if (a.kind == Value::Kind::kInfinity || b.kind == Value::Kind::kInfinity) {  // -infinity < x is always true
    const Value& infinite = a.kind == Value::Kind::kInfinity ? a : b;
    const Node& other = a.kind == Value::Kind::kInfinity ? right : left;
    const bool infinity_is_lower = &infinite == &a ? is_less : !is_less;
    if (sign == "!=" || (algebra_.as_rational(infinite.form)->sign() < 0) != infinity_is_lower ||
        other.kind != Node::Kind::kVariable)
      throw Undecided{};
    return {.kind = Value::Kind::kReals, .reals = {Piece{}}, .subject = other.name};
  }
  if (a.kind == Value::Kind::kScalar && b.kind == Value::Kind::kList && sign == "!=") return excluding(a.form, b.items);
  if (a.kind != Value::Kind::kScalar || b.kind != Value::Kind::kScalar || a.is_percent || b.is_percent)
    throw Undecided{};
  Form difference = algebra_.subtract(a.form, b.form);
  if (!is_less && sign != "!=") difference = algebra_.scale(difference, Rational(-1));
  if (!algebra_.has_variables(difference)) throw Undecided{};
  return solve(difference, sign == "!=" ? "!=" : sign == "<" || sign == ">" ? "<" : "<=");
}

Value Evaluator::excluding(const Form& a, const std::vector<Value>& excluded) {
  Value result;
  for (size_t i = 0; i < excluded.size(); ++i) {
    if (excluded[i].kind != Value::Kind::kScalar || excluded[i].unit || excluded[i].is_percent) throw Undecided{};
    Value part = solve(algebra_.subtract(a, excluded[i].form), "!=");
    if (part.kind != Value::Kind::kReals) throw Undecided{};
    if (i > 0) part.reals = intersection(part.reals, result.reals);
    result = std::move(part);
  }
  return result;
}

/// Solves difference < 0 (or <= 0, != 0) over the reals. Returns the unsolved inequality if it is not supported.
Value Evaluator::solve(const Form& difference, const std::string& sign) {
  const Value unsolved{.kind = Value::Kind::kInequality, .form = difference, .brackets = sign};
  const std::optional<QuadraticInAtom> quadratic = as_quadratic(algebra_, difference);
  if (!quadratic) return unsolved;
  const Polynomial &constant = quadratic->coefficients[0], &slope = quadratic->coefficients[1],
                   &square = quadratic->coefficients[2];
  const AtomKind kind = algebra_.atom(quadratic->id).kind;
  if (kind == AtomKind::kVariable && !square.empty() && sign != "!=")
    return solve_quadratic(unsolved, quadratic->id, Form{square}, Form{slope}, Form{constant});
  if (!square.empty() || slope.empty()) return unsolved;
  const std::optional<int> direction = algebra_.sign(Form{slope, difference.denominator});
  if (!direction || *direction == 0) return unsolved;
  const Form bound = algebra_.divide(algebra_.scale(Form{constant}, Rational(-1)), Form{slope});
  if (kind == AtomKind::kAbsolute && sign != "!=")
    return solve_absolute(unsolved, quadratic->id, bound, *direction > 0);
  if (kind != AtomKind::kVariable) return unsolved;
  Value result{.kind = Value::Kind::kReals, .subject = algebra_.atom(quadratic->id).name};
  const Endpoint end{bound, sign == "<"};
  if (sign == "!=")
    result.reals = {Piece{{}, {bound, true}}, Piece{{bound, true}, {}}};
  else if (*direction > 0)
    result.reals = {Piece{{}, end}};
  else
    result.reals = {Piece{end, {}}};
  return result;
}

/// Splits |a| < r into a < r and -a < r, and |a| > r into a > r or -a > r.
Value Evaluator::solve_absolute(const Value& unsolved, int absolute, const Form& bound, bool is_below) {
  const Form inner = algebra_.atom(absolute).arguments[0];
  const Rational side(is_below ? 1 : -1);
  const auto half = [&](const Form& a) {
    return solve(algebra_.scale(algebra_.subtract(a, bound), side), unsolved.brackets);
  };
  Value upper = half(inner), lower = half(algebra_.scale(inner, Rational(-1)));
  if (upper.kind != Value::Kind::kReals || lower.kind != Value::Kind::kReals) return unsolved;
  if (is_below) {
    upper.reals = intersection(upper.reals, lower.reals);
  } else {
    upper.reals.insert(upper.reals.end(), lower.reals.begin(), lower.reals.end());
    upper.reals = normalized(std::move(upper.reals));
  }
  return upper;
}

/// Solves a x^2 + b x + c < 0: between the roots, or outside them.
Value Evaluator::solve_quadratic(const Value& unsolved, int variable, const Form& a, const Form& b, const Form& c) {
  const Form discriminant =
      algebra_.subtract(algebra_.multiply(b, b), algebra_.scale(algebra_.multiply(a, c), Rational(4)));
  const std::optional<int> leading_sign = algebra_.sign(a), discriminant_sign = algebra_.sign(discriminant);
  if (!leading_sign || !discriminant_sign || *leading_sign == 0) return unsolved;
  Value result{.kind = Value::Kind::kReals, .subject = algebra_.atom(variable).name};
  if (*discriminant_sign < 0) {
    if (*leading_sign < 0) result.reals = {Piece{}};
    return result;
  }
  const Form distance = algebra_.root(discriminant, 2), two_a = algebra_.scale(a, Rational(2 * *leading_sign));
  const Form minus_b = algebra_.scale(b, Rational(-*leading_sign));
  const bool is_open = unsolved.brackets == "<";
  const Endpoint low{algebra_.divide(algebra_.subtract(minus_b, distance), two_a), is_open};
  const Endpoint high{algebra_.divide(algebra_.add(minus_b, distance), two_a), is_open};
  if (*leading_sign > 0)
    result.reals = {Piece{low, high}};
  else
    result.reals = {Piece{{}, low}, Piece{high, {}}};
  result.reals = normalized(std::move(result.reals));
  return result;
}

}  // namespace keel::math
