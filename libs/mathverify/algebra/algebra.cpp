#include "libs/mathverify/algebra/algebra.h"

#include <algorithm>
#include <numeric>

namespace keel::math {
namespace {

constexpr int64_t kMaxExponent = int64_t{1} << 40;

/// Cost of a sum or product of two fractions, including the reduction to lowest terms.
uint64_t cost(const Rational& a, const Rational& b) {
  if (a.is_integer() && b.is_integer()) return 20 + 20 * a.limbs() * b.limbs();
  const uint64_t limbs = a.limbs() + b.limbs();
  return limbs <= 8 ? 100 : 60 * limbs * limbs;
}

}  // namespace

Exponent Exponent::of(int64_t numerator, int64_t denominator) {
  const int64_t common = std::gcd(numerator, denominator);
  numerator /= common;
  denominator /= common;
  if (std::abs(numerator) > kMaxExponent || denominator > kMaxExponent) throw Undecided{};
  return {numerator, denominator};
}

Exponent Exponent::of(const Rational& value) {
  if (value.numerator().bits() > 40 || value.denominator().bits() > 40) throw Undecided{};
  return {value.numerator().to_int64(), value.denominator().to_int64()};
}

int64_t Exponent::floor() const {
  const int64_t quotient = numerator / denominator;
  return quotient - (numerator % denominator < 0);
}

Exponent Exponent::operator+(const Exponent& other) const {
  if (is_integer() && other.is_integer()) return of(numerator + other.numerator, 1);
  if (denominator > (1 << 20) || other.denominator > (1 << 20)) throw Undecided{};
  return of(numerator * other.denominator + other.numerator * denominator, denominator * other.denominator);
}

Exponent Exponent::operator*(const Exponent& other) const {
  if (std::abs(numerator) > (1 << 30) || std::abs(other.numerator) > (1 << 30) || denominator > (1 << 30) ||
      other.denominator > (1 << 30))
    throw Undecided{};
  return of(numerator * other.numerator, denominator * other.denominator);
}

Form Algebra::number(const Rational& value) const {
  Form result;
  if (!value.is_zero()) result.numerator.emplace(Monomial{}, value);
  return result;
}

Form Algebra::single(int id, Exponent exponent) const {
  Form result;
  result.numerator.emplace(Monomial{{id, exponent}}, Rational(1));
  return result;
}

bool Algebra::same(const Atom& a, const Atom& b) {
  if (a.kind != b.kind || a.name != b.name || a.integer != b.integer || a.unit != b.unit ||
      a.arguments.size() != b.arguments.size())
    return false;
  for (size_t i = 0; i < a.arguments.size(); ++i)
    if (!equal(a.arguments[i], b.arguments[i])) return false;
  return true;
}

int Algebra::intern(Atom candidate) {
  for (size_t id = 0; id < atoms_.size(); ++id) {
    budget_.charge(40);
    if (same(atoms_[id], candidate)) return static_cast<int>(id);
  }
  // Cached in the atom, because walking through nested roots repeatedly takes exponential time.
  const Polynomial unit = {{candidate.unit, Rational(1)}};
  candidate.has_variables = candidate.kind == AtomKind::kVariable || has_variables(unit);
  candidate.has_imaginary =
      candidate.kind == AtomKind::kImaginary || candidate.kind == AtomKind::kUnity || contains_imaginary(unit);
  for (const Form& argument : candidate.arguments) {
    candidate.has_variables |= has_variables(argument);
    candidate.has_imaginary |= contains_imaginary(argument.numerator) || contains_imaginary(argument.denominator);
  }
  atoms_.push_back(std::move(candidate));
  return static_cast<int>(atoms_.size()) - 1;
}

Form Algebra::function(const std::string& name, std::vector<Form> arguments) {
  Atom atom{AtomKind::kFunction, name};
  atom.arguments = std::move(arguments);
  return single(intern(std::move(atom)));
}

void Algebra::add_term(Polynomial& to, const Monomial& monomial, const Rational& coefficient) {
  const auto [term, is_new] = to.try_emplace(monomial, coefficient);
  if (is_new) return;
  budget_.charge(cost(term->second, coefficient));
  term->second = term->second + coefficient;
  if (term->second.is_zero()) to.erase(term);
}

/// Adds a product after applying the reduction rules: i^2 = -1, sqrt(2)^2 = 2, sqrt(1 + x)^2 = 1 + x, |x|^2 = x^2.
void Algebra::add_reduced(Polynomial& to, Monomial monomial, Rational coefficient) {
  for (size_t index = 0; index < monomial.size();) {
    auto& [id, exponent] = monomial[index];
    const Atom& factor = atom(id);
    Polynomial expansion;
    switch (factor.kind) {
      case AtomKind::kImaginary: {
        const int64_t quarter = ((exponent.numerator % 4) + 4) % 4;
        if (quarter >= 2) coefficient = -coefficient;
        exponent = {quarter % 2, 1};
        break;
      }
      case AtomKind::kPrime:
      case AtomKind::kUnity: {
        const int64_t whole_part = exponent.floor();
        if (whole_part == 0) break;
        const bool is_unity = factor.kind == AtomKind::kUnity;
        if (!is_unity) {
          budget_.charge(static_cast<uint64_t>(std::abs(whole_part)));
          coefficient = coefficient * Rational(factor.integer).power(whole_part);
        } else if (whole_part % 2 != 0) {
          coefficient = -coefficient;
        }
        exponent = exponent + Exponent{-whole_part, 1};
        break;
      }
      case AtomKind::kRoot:
        if (const int64_t whole_part = exponent.floor(); whole_part >= 1 && is_one(factor.arguments[0].denominator)) {
          exponent = exponent + Exponent{-whole_part, 1};
          expansion = integer_power(Form(factor.arguments[0]), whole_part).numerator;
        }
        break;
      case AtomKind::kAbsolute:
        if (const int64_t even = exponent.floor() / 2 * 2; even >= 2 && is_one(factor.arguments[0].denominator)) {
          exponent = exponent + Exponent{-even, 1};
          expansion = integer_power(Form(factor.arguments[0]), even).numerator;
        }
        break;
      default:
        break;
    }
    if (factor.kind == AtomKind::kUnity && exponent.numerator != 0 && 12 % exponent.denominator == 0)
      expansion = root_of_unity(std::exchange(exponent, Exponent{0, 1})).numerator;
    if (exponent.numerator == 0)
      monomial.erase(monomial.begin() + static_cast<std::ptrdiff_t>(index));
    else
      ++index;
    if (!expansion.empty()) {
      const Polynomial product = multiply({{monomial, coefficient}}, expansion);
      for (const auto& [product_monomial, value] : product) add_term(to, product_monomial, value);
      return;
    }
  }
  if (!coefficient.is_zero()) add_term(to, monomial, coefficient);
}

Polynomial Algebra::multiply(const Polynomial& a, const Polynomial& b) {
  Polynomial product;
  for (const auto& [left, x] : a) {
    for (const auto& [right, y] : b) {
      budget_.charge(600 + 40 * (left.size() + right.size()) + cost(x, y));
      Monomial merged;
      merged.reserve(left.size() + right.size());
      auto l = left.begin(), r = right.begin();
      while (l != left.end() || r != right.end()) {
        if (r == right.end() || (l != left.end() && l->first < r->first)) {
          merged.push_back(*l++);
        } else if (l == left.end() || r->first < l->first) {
          merged.push_back(*r++);
        } else {
          const Exponent sum = l->second + r->second;
          if (sum.numerator != 0) merged.emplace_back(l->first, sum);
          ++l, ++r;
        }
      }
      add_reduced(product, std::move(merged), x * y);
    }
  }
  return product;
}

Polynomial Algebra::add(const Polynomial& a, const Polynomial& b, const Rational& factor) {
  budget_.charge(200 * a.size());
  Polynomial sum = a;
  for (const auto& [monomial, coefficient] : b) {
    budget_.charge(300 + cost(coefficient, factor));
    add_term(sum, monomial, coefficient * factor);
  }
  return sum;
}

Form Algebra::normalized(Polynomial numerator, Polynomial denominator) {
  if (is_one(denominator)) return {std::move(numerator), std::move(denominator)};
  if (denominator.empty() || is_zero(denominator)) throw Undecided{};  // a division by zero
  if (denominator.size() == 1) {
    // 1 / (c x^r) is c^-1 x^-r; roots and absolute values stay in the numerator, over their argument.
    Monomial monomial = denominator.begin()->first;
    const Rational coefficient = denominator.begin()->second;
    Polynomial new_denominator = {{Monomial{}, Rational(1)}};
    for (auto& [id, exponent] : monomial) {
      const Atom& factor = atom(id);
      exponent = exponent * Exponent{-1, 1};
      const bool is_root = factor.kind == AtomKind::kRoot, is_absolute = factor.kind == AtomKind::kAbsolute;
      if ((!is_root && !is_absolute) || !is_one(factor.arguments[0].denominator)) continue;
      const int64_t lift = is_root ? -exponent.floor() : (-exponent.floor() + 1) / 2 * 2;
      exponent = exponent + Exponent{lift, 1};
      new_denominator = multiply(new_denominator, integer_power(Form(factor.arguments[0]), lift).numerator);
    }
    std::erase_if(monomial, [](const auto& factor) { return factor.second.numerator == 0; });
    Polynomial new_numerator = multiply(numerator, {{monomial, Rational(1) / coefficient}});
    return is_one(new_denominator) ? Form{std::move(new_numerator), std::move(new_denominator)}
                                   : normalized(std::move(new_numerator), std::move(new_denominator));
  }
  if (numerator.empty()) return {};
  if (numerator.size() == denominator.size() &&
      std::equal(numerator.begin(), numerator.end(), denominator.begin(),
                 [](const auto& x, const auto& y) { return x.first == y.first; })) {
    const Rational ratio = numerator.begin()->second / denominator.begin()->second;
    if (add(numerator, denominator, -ratio).empty()) return number(ratio);
  }
  const Rational lead = denominator.rbegin()->second;  // a leading coefficient of 1 keeps the numbers small
  if (!lead.is_one()) {
    for (Polynomial* each : {&numerator, &denominator})
      for (auto& [monomial, coefficient] : *each) coefficient = coefficient / lead;
  }
  return {std::move(numerator), std::move(denominator)};
}

Form Algebra::add(const Form& a, const Form& b) {
  if (a.denominator == b.denominator) return normalized(add(a.numerator, b.numerator, Rational(1)), a.denominator);
  return normalized(add(multiply(a.numerator, b.denominator), multiply(b.numerator, a.denominator), Rational(1)),
                    multiply(a.denominator, b.denominator));
}

Form Algebra::scale(const Form& a, const Rational& factor) { return {add({}, a.numerator, factor), a.denominator}; }

Form Algebra::multiply(const Form& a, const Form& b) {
  if (a.denominator == b.numerator) return normalized(a.numerator, b.denominator);
  if (b.denominator == a.numerator) return normalized(b.numerator, a.denominator);
  return normalized(multiply(a.numerator, b.numerator), multiply(a.denominator, b.denominator));
}

Form Algebra::invert(const Form& a) { return normalized(a.denominator, a.numerator); }

std::optional<Rational> Algebra::as_rational(const Form& a) const {
  if (!is_one(a.denominator) || a.numerator.size() > 1) return std::nullopt;
  if (a.numerator.empty()) return Rational(0);
  if (!a.numerator.begin()->first.empty()) return std::nullopt;
  return a.numerator.begin()->second;
}

bool Algebra::has_variables(const Polynomial& a) const {
  for (const auto& [monomial, coefficient] : a)
    for (const auto& [id, exponent] : monomial)
      if (atom(id).has_variables) return true;
  return false;
}

bool Algebra::contains_imaginary(const Polynomial& a) const {
  for (const auto& [monomial, coefficient] : a)
    for (const auto& [id, exponent] : monomial)
      if (atom(id).has_imaginary) return true;
  return false;
}

bool Algebra::equal(const Form& a, const Form& b) {
  if (a.denominator == b.denominator) return is_zero(add(a.numerator, b.numerator, Rational(-1)));
  return is_zero(add(multiply(a.numerator, b.denominator), multiply(b.numerator, a.denominator), Rational(-1)));
}

/// Treats transcendental atoms as independent: a sum is zero if the algebraic coefficient of each product of them is.
bool Algebra::is_zero(const Polynomial& a) {
  if (a.empty()) return true;
  bool has_relations = false;  // fractional powers of primes alone are independent (Besicovitch 1940)
  std::map<Monomial, Polynomial> groups;
  for (const auto& [monomial, coefficient] : a) {
    Monomial algebraic, other;
    for (const auto& factor : monomial) {
      const AtomKind kind = atom(factor.first).kind;
      const bool is_constant_root = kind == AtomKind::kRoot && !has_variables(atom(factor.first).arguments[0]);
      has_relations |= is_constant_root || kind == AtomKind::kUnity;
      const bool is_algebraic =
          is_constant_root || kind == AtomKind::kPrime || kind == AtomKind::kUnity || kind == AtomKind::kImaginary;
      (is_algebraic ? algebraic : other).push_back(factor);
    }
    budget_.charge(300 + 50 * monomial.size());
    groups[other].emplace(algebraic, coefficient);
  }
  if (!has_relations) return false;
  for (const auto& [other, coefficient] : groups)
    if (!is_algebraic_zero(coefficient)) return false;
  return true;
}

}  // namespace keel::math
