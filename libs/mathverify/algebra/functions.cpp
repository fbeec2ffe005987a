// Functions of exact arguments. Sines and cosines become exponentials, so their identities for rational multiples of
// the same angles become polynomial identities.

#include <algorithm>

#include "libs/mathverify/algebra/algebra.h"
#include "libs/mathverify/algebra/enclosure.h"

namespace keel::math {
namespace {

int64_t small_natural(const std::optional<Rational>& value, int64_t limit) {
  if (!value || !value->is_integer() || value->sign() < 0 || value->numerator().bits() > 40) return -1;
  const int64_t result = value->numerator().to_int64();
  return result <= limit ? result : -1;
}

}  // namespace

Form Algebra::root_of_unity(Exponent turns) {
  if (12 % turns.denominator != 0) {
    Form result;
    add_reduced(result.numerator, {{intern(Atom{AtomKind::kUnity}), turns}}, Rational(1));
    return result;
  }
  const int64_t step = ((turns.numerator * (12 / turns.denominator)) % 24 + 24) % 24;  // in units of pi / 12
  const auto cosine_of = [this](int64_t k) {
    k = (k % 24 + 24) % 24;
    if (k > 12) k = 24 - k;
    const Rational sign(k > 6 ? -1 : 1);
    if (k > 6) k = 12 - k;
    const auto surd = [this](int64_t n) { return rational_power(Rational(n), {1, 2}); };
    const Rational half(Integer(1), Integer(2)), quarter(Integer(1), Integer(4));
    Form value;
    if (k == 0) value = number(Rational(1));
    if (k == 1) value = scale(add(surd(6), surd(2)), quarter);
    if (k == 2) value = scale(surd(3), half);
    if (k == 3) value = scale(surd(2), half);
    if (k == 4) value = number(half);
    if (k == 5) value = scale(subtract(surd(6), surd(2)), quarter);
    return scale(value, sign);
  };
  return add(cosine_of(step), multiply(imaginary(), cosine_of(step - 6)));
}

Form Algebra::exponential_i(const Form& a) { return symbolic_power(euler(), multiply(imaginary(), a)); }

Form Algebra::cosine(const Form& a) {
  if (!is_one(a.denominator)) return function("cos", {a});
  if (a.numerator.empty()) return number(Rational(1));
  const Form sum = add(exponential_i(a), exponential_i(scale(a, Rational(-1))));
  return scale(sum, Rational(Integer(1), Integer(2)));
}

Form Algebra::sine(const Form& a) {
  if (!is_one(a.denominator)) return function("sin", {a});
  if (a.numerator.empty()) return {};
  const Form difference = subtract(exponential_i(a), exponential_i(scale(a, Rational(-1))));
  return multiply(scale(imaginary(), Rational(Integer(-1), Integer(2))), difference);
}

Form Algebra::inverse_trigonometric(const std::string& name, const Form& a) {
  if (!has_variables(a)) {
    for (int64_t k = -6; k <= 12; ++k) {
      if ((name == "acos" && k < 0) || (name != "acos" && k > 6)) continue;
      if (name == "atan" && (k == -6 || k == 6)) continue;
      const Form angle = scale(pi(), Rational(Integer(k), Integer(12)));
      const Form value = name == "acos"   ? cosine(angle)
                         : name == "asin" ? sine(angle)
                                          : divide(sine(angle), cosine(angle));
      if (equal(value, a)) return angle;
    }
  }
  return function(name, {a});
}

Form Algebra::logarithm(const Form& a) {
  const std::optional<Rational> value = as_rational(a);
  if (value && value->sign() <= 0) throw Undecided{};
  if (!value && !has_variables(a) && sign(a) != 1) throw Undecided{};
  const bool is_single = is_one(a.denominator) && a.numerator.size() == 1;
  if (!is_single) return function("ln", {a});
  const auto& [monomial, coefficient] = *a.numerator.begin();
  if (coefficient.sign() <= 0) return function("ln", {a});
  for (const auto& [id, exponent] : monomial)
    if (!is_positive(id)) return function("ln", {a});
  Form sum;
  const auto add_multiple = [&](const Form& each, const Rational& count) { sum = add(sum, scale(each, count)); };
  const auto add_integer = [&](const Integer& n, const Rational& count) {
    for (const auto& [prime, power] : factors(n))
      add_multiple(function("ln", {number(Rational(prime))}), count * Rational(power));
  };
  add_integer(coefficient.numerator(), Rational(1));
  add_integer(coefficient.denominator(), Rational(-1));
  for (const auto& [id, exponent] : monomial) {
    const Rational count(Integer(exponent.numerator), Integer(exponent.denominator));
    const Atom& factor = atom(id);
    if (factor.kind == AtomKind::kPrime) {
      add_integer(factor.integer, count);
    } else if (factor.kind == AtomKind::kExponential && factor.arguments.empty()) {
      Form unit{Polynomial{{factor.unit, Rational(1)}}};
      if (!factor.integer.is_zero()) unit = multiply(unit, function("ln", {number(Rational(factor.integer))}));
      add_multiple(unit, count);
    } else {
      add_multiple(function("ln", {single(id)}), count);
    }
  }
  return sum;
}

/// Rewrites (n + 2)! as n! (n + 1) (n + 2), so that n! equals n (n - 1)!.
Form Algebra::symbolic_factorial(const Form& a) {
  constexpr int64_t kMaxShift = 20;
  const auto constant = a.numerator.find(Monomial{});
  const bool has_shift = is_one(a.denominator) && constant != a.numerator.end() && constant->second.is_integer() &&
                         constant->second.abs() <= Rational(kMaxShift) && has_variables(a);
  if (!has_shift) return function("factorial", {a});
  const int64_t shift = constant->second.numerator().to_int64();
  const Form base = subtract(a, number(constant->second));
  Form product = function("factorial", {base});
  for (int64_t i = 1; i <= shift; ++i) product = multiply(product, add(base, number(Rational(i))));
  for (int64_t i = 0; i > shift; --i) product = divide(product, add(base, number(Rational(i))));
  return product;
}

Form Algebra::factorial(const Form& a) {
  const int64_t n = small_natural(as_rational(a), 1500);
  if (n < 0) return symbolic_factorial(a);
  Integer product(1);
  for (int64_t k = 2; k <= n; ++k) {
    budget_.charge(product.limbs() + 10);
    product = product * Integer(k);
  }
  return number(Rational(product));
}

Form Algebra::binomial(const Form& n, const Form& k) {
  const int64_t n_value = small_natural(as_rational(n), 1 << 20), k_value = small_natural(as_rational(k), 1 << 20);
  constexpr int64_t kMaxSymbolic = 8;
  if (n_value < 0 && k_value >= 0 && k_value <= kMaxSymbolic && has_variables(n)) {  // n (n - 1) / 2
    Form product = number(Rational(1));
    for (int64_t i = 0; i < k_value; ++i)
      product = multiply(product, scale(subtract(n, number(Rational(i))), Rational(Integer(1), Integer(i + 1))));
    return product;
  }
  if (has_variables(n) || has_variables(k))
    return divide(factorial(n), multiply(factorial(k), factorial(subtract(n, k))));
  if (n_value < 0 || k_value < 0) return function("binomial", {n, k});
  if (k_value > n_value) return {};
  const int64_t count = std::min(k_value, n_value - k_value);
  if (count > 2000) return function("binomial", {n, k});
  Rational product(1);
  for (int64_t i = 1; i <= count; ++i) {
    budget_.charge(200 + 60 * product.limbs());
    product = product * Rational(Integer(n_value - count + i), Integer(i));
  }
  return number(product);
}

Form Algebra::floor(const Form& a, bool up) {
  if (up) return scale(floor(scale(a, Rational(-1)), false), Rational(-1));
  if (const std::optional<Rational> value = as_rational(a)) return number(Rational(value->floor()));
  if (has_variables(a)) return function("floor", {a});
  const std::optional<Integer> below = Numeric::floor_of(*this, a);
  if (!below) throw Undecided{};
  return number(Rational(*below));
}

Form Algebra::greatest_common_divisor(const Form& a, const Form& b, bool least_common_multiple) {
  const std::optional<Rational> x = as_rational(a), y = as_rational(b);
  if (!x || !y || !x->is_integer() || !y->is_integer() || x->is_zero() || y->is_zero()) throw Undecided{};
  budget_.charge(100 + 50 * x->limbs() * y->limbs());
  const Integer common = Integer::gcd(x->numerator(), y->numerator());
  if (!least_common_multiple) return number(Rational(common));
  return number(Rational(x->numerator().abs()) * Rational(y->numerator().abs(), common));
}

}  // namespace keel::math
