// Powers, roots and absolute values. Every rule here holds for real variables wherever both sides are defined; a rule
// that needs more (sqrt(x y) = sqrt(x) sqrt(y), sqrt(x^2) = x) is not applied.

#include <algorithm>

#include "libs/mathverify/algebra/algebra.h"

namespace keel::math {
std::vector<std::pair<Integer, int64_t>> Algebra::factors(Integer value) {
  std::vector<std::pair<Integer, int64_t>> result;
  // A cofactor without small primes is not factored: still correct, but fewer equalities are found.
  const uint32_t limit = value.limbs() <= 2 ? 65536 : 2000;
  for (uint32_t divisor = 2; divisor < limit; divisor += divisor == 2 ? 1 : 2) {
    if (value.limbs() <= 1 && static_cast<uint64_t>(divisor) * divisor > static_cast<uint64_t>(value.to_int64())) break;
    budget_.charge(2 + 6 * value.limbs());
    if (value.modulo_small(divisor) != 0) continue;
    int64_t count = 0, chunk_exponent = 1;
    uint64_t chunk = divisor;  // largest power of the divisor in 32 bits; saves divisions: 10^4000 has 8000 factors
    for (; chunk * divisor < (uint64_t{1} << 32); ++chunk_exponent) chunk *= divisor;
    for (const bool by_chunks : {true, false}) {
      const uint32_t step_divisor = by_chunks ? static_cast<uint32_t>(chunk) : divisor;
      for (; value.modulo_small(step_divisor) == 0; count += by_chunks ? chunk_exponent : 1) {
        budget_.charge(12 * value.limbs());
        value.divide_small(step_divisor);
      }
    }
    result.emplace_back(Integer(divisor), count);
  }
  if (value.is_one()) return result;
  for (const unsigned degree : {2u, 3u, 5u}) {
    budget_.charge(200 + 50 * value.limbs() * value.limbs());
    const Integer root = value.root_floor(degree);
    if (root.power(degree) == value) {
      result.emplace_back(root, degree);
      return result;
    }
  }
  result.emplace_back(std::move(value), 1);
  return result;
}

Form Algebra::rational_power(const Rational& base, Exponent exponent) {
  if (base.is_zero()) {
    if (exponent.numerator <= 0) throw Undecided{};
    return {};
  }
  if (exponent.is_integer()) return number(base.power(exponent.numerator));
  if (base.sign() < 0) {
    const Form magnitude = rational_power(-base, exponent);
    if (exponent.denominator % 2 != 0) return exponent.numerator % 2 == 0 ? magnitude : scale(magnitude, Rational(-1));
    if (exponent.denominator != 2) throw Undecided{};
    return multiply(integer_power(imaginary(), exponent.numerator), magnitude);
  }
  Form result = number(Rational(1));
  for (const bool in_numerator : {true, false}) {
    for (const auto& [prime, count] : factors(in_numerator ? base.numerator() : base.denominator())) {
      Atom atom{AtomKind::kPrime};
      atom.integer = prime;
      const Exponent power = exponent * Exponent{in_numerator ? count : -count, 1};
      Polynomial reduced;
      add_reduced(reduced, {{intern(std::move(atom)), power}}, Rational(1));
      result.numerator = multiply(result.numerator, reduced);
    }
  }
  return result;
}

Form Algebra::exponential(const Atom& base, const Monomial& unit, Exponent exponent) {
  Atom atom = base;
  atom.kind = AtomKind::kExponential;
  atom.unit = unit;
  if (exponent.numerator == 0) return number(Rational(1));
  return single(intern(std::move(atom)), exponent);
}

Form Algebra::integer_power(const Form& base, int64_t exponent) {
  if (exponent < 0) return invert(integer_power(base, -exponent));
  if (is_one(base.denominator) && base.numerator.size() == 1) {
    const auto& [monomial, coefficient] = *base.numerator.begin();
    Monomial raised = monomial;
    for (auto& [id, power] : raised) power = power * Exponent::of(exponent, 1);
    if (exponent == 0) raised.clear();
    budget_.charge(static_cast<uint64_t>(std::min<int64_t>(exponent, 1 << 14)) * coefficient.limbs());
    Form result;
    add_reduced(result.numerator, std::move(raised), coefficient.power(exponent));
    return result;
  }
  Form result = number(Rational(1)), square = base;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = multiply(result, square);
    if (exponent > 1) square = multiply(square, square);
  }
  return result;
}

/// Rewrites 6^n for huge n as 2^n 3^n, so that 4^n equals 2^(2n).
Form Algebra::huge_power(const Rational& base, const Form& exponent) {
  Form result = number(Rational(base.sign() < 0 && as_rational(exponent)->numerator().is_odd() ? -1 : 1));
  for (const bool in_numerator : {true, false})
    for (const auto& [prime, count] : factors((in_numerator ? base.numerator() : base.denominator()).abs()))
      result = multiply(result, function("power", {number(Rational(prime)),
                                                   scale(exponent, Rational(in_numerator ? count : -count))}));
  return result;
}

Form Algebra::power(const Form& base, const Form& exponent) {
  const std::optional<Rational> exponent_value = as_rational(exponent), base_value = as_rational(base);
  if (!exponent_value) return symbolic_power(base, exponent);
  if (exponent_value->is_zero() && base_value && base_value->is_zero()) throw Undecided{};
  if (base_value && exponent_value->is_integer() && !base_value->is_zero() &&
      !(base_value->is_integer() && base_value->abs().is_one())) {
    // 5^(5^(5^5)) stays symbolic.
    const size_t size = std::max(base_value->numerator().bits(), base_value->denominator().bits());
    const bool fits =
        exponent_value->numerator().bits() <= 20 &&
        size * static_cast<size_t>(std::abs(exponent_value->numerator().to_int64())) <= Rational::kMaxBits;
    if (!fits) return huge_power(*base_value, exponent);
  }
  if (exponent_value->is_integer() && base_value && base_value->is_integer() && base_value->abs().is_one())
    return number(base_value->sign() > 0 || !exponent_value->numerator().is_odd() ? Rational(1) : Rational(-1));
  const Exponent fraction = Exponent::of(*exponent_value);
  if (base_value) return rational_power(*base_value, fraction);
  if (fraction.is_integer()) return integer_power(base, fraction.numerator);
  return root(integer_power(base, fraction.numerator), fraction.denominator);
}

/// Simplifies e^(c ln a) to a^c, and 2^(c m / ln 2) to e^(c m).
std::optional<Form> Algebra::cancel_logarithm(const Atom& base, const Monomial& unit, Exponent exponent) {
  const bool is_euler = base.integer.is_zero() && base.arguments.empty();
  for (size_t i = 0; i < unit.size(); ++i) {
    const Atom& factor = atom(unit[i].first);
    if (factor.kind != AtomKind::kFunction || factor.name != "ln") continue;
    const Form value = number(Rational(Integer(exponent.numerator), Integer(exponent.denominator)));
    if (is_euler && unit.size() == 1 && unit[i].second == Exponent{1, 1})
      return power(Form(factor.arguments[0]), value);
    const std::optional<Rational> log_argument = as_rational(factor.arguments[0]);
    if (base.integer.is_zero() || unit[i].second != Exponent{-1, 1} || !log_argument ||
        *log_argument != Rational(base.integer))
      continue;
    Monomial rest = unit;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    return symbolic_power(euler(), Form{Polynomial{{rest, value.numerator.begin()->second}}});
  }
  return std::nullopt;
}

/// Rewrites base^(c1 m1 + c2 m2 + ...) as a product of powers of the atoms base^m.
Form Algebra::symbolic_power(const Form& base, const Form& exponent) {
  if (!is_one(exponent.denominator)) return function("power", {base, exponent});
  std::vector<std::pair<Atom, Rational>> bases;  // with its exponent in `base`
  const std::optional<Rational> value = as_rational(base);
  if (value && value->is_zero()) throw Undecided{};
  if (value && value->is_one()) return base;
  const bool is_monomial =
      is_one(base.denominator) && base.numerator.size() == 1 && base.numerator.begin()->second.is_one();
  const Monomial monomial = is_monomial ? base.numerator.begin()->first : Monomial{};
  if (value && value->sign() > 0) {
    for (const bool in_numerator : {true, false})
      for (const auto& [prime, count] : factors(in_numerator ? value->numerator() : value->denominator())) {
        bases.emplace_back(Atom{AtomKind::kExponential}, Rational(in_numerator ? count : -count));
        bases.back().first.integer = prime;
      }
  } else if (monomial.size() == 1 && atom(monomial[0].first).kind == AtomKind::kExponential &&
             atom(monomial[0].first).unit.empty()) {
    const auto& [id, count] = monomial[0];
    bases.emplace_back(atom(id), Rational(Integer(count.numerator), Integer(count.denominator)));
  } else {
    bases.emplace_back(Atom{AtomKind::kExponential}, Rational(1));
    bases.back().first.arguments = {base};
  }
  Form result = number(Rational(1));
  for (const auto& [factor, count] : bases) {
    const bool is_euler = factor.integer.is_zero() && factor.arguments.empty();
    for (const auto& [unit, coefficient] : exponent.numerator) {
      const Exponent scaled_exponent = Exponent::of(coefficient * count);
      const bool is_i_pi =
          is_euler && unit.size() == 2 && std::all_of(unit.begin(), unit.end(), [&](const auto& part) {
            const AtomKind kind = atom(part.first).kind;
            return part.second == Exponent{1, 1} && (kind == AtomKind::kImaginary || kind == AtomKind::kPi);
          });
      const std::optional<Form> cancelled = is_i_pi ? std::nullopt : cancel_logarithm(factor, unit, scaled_exponent);
      if (is_i_pi)
        result = multiply(result, root_of_unity(scaled_exponent));
      else if (cancelled)
        result = multiply(result, *cancelled);
      else if (!unit.empty() || is_euler)
        result = multiply(result, exponential(factor, unit, scaled_exponent));
      else if (!factor.arguments.empty())
        result = multiply(result, power(base, number(coefficient)));
      else
        result = multiply(result, rational_power(Rational(factor.integer), scaled_exponent));
    }
  }
  return result;
}

/// True if an atom is real and positive for all values of its variables.
bool Algebra::is_positive(int id) {
  const Atom& candidate = atom(id);
  switch (candidate.kind) {
    case AtomKind::kPi:
    case AtomKind::kPrime:
      return true;
    case AtomKind::kExponential:
      return candidate.arguments.empty() && !contains_imaginary({{candidate.unit, Rational(1)}});
    case AtomKind::kFunction:
      return sign(single(id)) == 1;
    default:
      return false;
  }
}

Form Algebra::monomial_root(const Monomial& monomial, int64_t degree) {
  const bool even = degree % 2 == 0;
  Form result = number(Rational(1));
  Monomial odd;  // variables of odd degree under an even root
  for (const auto& [id, exponent] : monomial) {
    const AtomKind kind = atom(id).kind;
    if (kind == AtomKind::kImaginary || kind == AtomKind::kUnity) throw Undecided{};
    const Exponent root_exponent = exponent * Exponent{1, degree};
    // x^(2/3) is not negative where x is, so its square root is not x^(1/3)
    if (even && !exponent.is_integer() && exponent.denominator % 2 != 0 && !is_positive(id)) throw Undecided{};
    if (even && exponent.is_integer() && !is_positive(id) && kind != AtomKind::kAbsolute) {
      if (exponent.numerator % 2 != 0)
        odd.emplace_back(id, exponent);
      else
        result = multiply(result, power(absolute(single(id)), number(Rational(Integer(root_exponent.numerator),
                                                                              Integer(root_exponent.denominator)))));
      continue;
    }
    Polynomial reduced;
    add_reduced(reduced, {{id, root_exponent}}, Rational(1));
    result = multiply(result, Form{reduced});
  }
  if (odd.size() == 1) return multiply(result, single(odd[0].first, odd[0].second * Exponent{1, degree}));
  return odd.empty() ? result : multiply(result, polynomial_root({{odd, Rational(1)}}, degree));
}

/// Divides by the content (a positive rational), so that coefficients are coprime integers.
Form Algebra::primitive(const Polynomial& a, Rational& content, bool positive_lead) {
  Integer numerator_gcd(0), denominator_lcm(1);
  for (const auto& [monomial, coefficient] : a) {
    budget_.charge(100 + 50 * coefficient.limbs() * coefficient.limbs());
    numerator_gcd = Integer::gcd(numerator_gcd, coefficient.numerator());
    const Integer common = Integer::gcd(denominator_lcm, coefficient.denominator());
    denominator_lcm = Integer::divide_floor(denominator_lcm * coefficient.denominator(), common).first;
  }
  content = Rational(numerator_gcd, denominator_lcm);
  if (positive_lead && a.rbegin()->second.sign() < 0) content = -content;
  Form result;
  for (const auto& [monomial, coefficient] : a) result.numerator.emplace(monomial, coefficient / content);
  return result;
}

Form Algebra::polynomial_root(Polynomial a, int64_t degree) {
  const bool even = degree % 2 == 0;
  if (!has_variables(a)) {
    const std::optional<int> sign_of_a = sign(Form{a});
    if (!sign_of_a) throw Undecided{};
    if (*sign_of_a == 0) return {};
    if (*sign_of_a < 0) {
      if (even && degree != 2) throw Undecided{};
      const Form magnitude = polynomial_root(add({}, a, Rational(-1)), degree);
      return even ? multiply(imaginary(), magnitude) : scale(magnitude, Rational(-1));
    }
  }
  Rational content;
  Atom atom{AtomKind::kRoot};
  atom.arguments = {primitive(a, content, !even && has_variables(a))};
  const Form content_root = rational_power(content, {1, degree});
  return multiply(content_root, single(intern(std::move(atom)), {1, degree}));
}

Form Algebra::root(const Form& a, int64_t degree) {
  if (degree <= 0 || degree > 1000) throw Undecided{};
  if (degree == 1) return a;
  if (const std::optional<Rational> value = as_rational(a)) return rational_power(*value, {1, degree});
  if (!is_one(a.denominator)) {
    const Form denominator{a.denominator};
    const Form numerator = multiply(Form{a.numerator}, integer_power(denominator, degree - 1));
    return divide(root(numerator, degree), degree % 2 == 0 ? absolute(denominator) : denominator);
  }
  if (a.numerator.size() > 1) return polynomial_root(a.numerator, degree);
  const auto& [monomial, coefficient] = *a.numerator.begin();
  if (coefficient.sign() < 0 && degree % 2 == 0 && has_variables(a)) return polynomial_root(a.numerator, degree);
  return multiply(rational_power(coefficient, {1, degree}), monomial_root(monomial, degree));
}

Form Algebra::absolute(const Form& a) {
  if (const std::optional<Rational> value = as_rational(a)) return number(value->abs());
  if (!is_one(a.denominator)) return divide(absolute(Form{a.numerator}), absolute(Form{a.denominator}));
  if (!has_variables(a)) {
    if (const std::optional<int> sign_of_a = sign(a)) return *sign_of_a < 0 ? scale(a, Rational(-1)) : a;
    if (!contains_imaginary(a.numerator)) throw Undecided{};
    return root(multiply(a, Form{conjugate(a.numerator)}), 2);
  }
  if (contains_imaginary(a.numerator)) return function("abs", {a});
  if (a.numerator.size() > 1) {
    Rational content;
    Atom atom{AtomKind::kAbsolute};
    atom.arguments = {primitive(a.numerator, content, true)};
    return scale(single(intern(std::move(atom))), content.abs());
  }
  const auto& [monomial, coefficient] = *a.numerator.begin();
  Form result = number(coefficient.abs());
  for (const auto& [id, exponent] : monomial) {
    Form factor = single(id, exponent);
    if (!exponent.is_integer() && exponent.denominator % 2 != 0 && !is_positive(id)) return function("abs", {a});
    if (exponent.is_integer() && exponent.numerator % 2 != 0 && !is_positive(id) &&
        atom(id).kind != AtomKind::kAbsolute) {
      Atom absolute_value{AtomKind::kAbsolute};
      absolute_value.arguments = {single(id)};
      factor = integer_power(single(intern(std::move(absolute_value))), exponent.numerator);
    }
    result = multiply(result, factor);
  }
  return result;
}

}  // namespace keel::math
