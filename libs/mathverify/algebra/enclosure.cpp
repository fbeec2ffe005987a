#include "libs/mathverify/algebra/enclosure.h"

#include <algorithm>

namespace keel::math {
namespace {

Integer ceiling_shift(const Integer& a, size_t count) { return -((-a) >> count); }
Integer ceiling_divide(const Integer& a, const Integer& b) { return -Integer::divide_floor(-a, b).first; }

}  // namespace

Interval Numeric::exact(const Rational& value) {
  const Integer scaled = value.numerator() << precision_;
  charge(scaled, value.denominator());
  return {Integer::divide_floor(scaled, value.denominator()).first, ceiling_divide(scaled, value.denominator())};
}

Interval Numeric::multiply(const Interval& a, const Interval& b) {
  charge(a.high, b.high), charge(a.low, b.low), charge(a.high, b.low), charge(a.low, b.high);
  const Integer products[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
  const auto [low, high] = std::minmax_element(std::begin(products), std::end(products));
  return {*low >> precision_, ceiling_shift(*high, precision_)};
}

Interval Numeric::divide(const Interval& a, const Interval& b) {
  if (b.contains_zero()) throw Undecided{};
  std::optional<Interval> result;
  for (const Integer* numerator : {&a.low, &a.high})
    for (const Integer* denominator : {&b.low, &b.high}) {
      const Integer scaled = *numerator << precision_;
      charge(scaled, *denominator);
      const Integer low = Integer::divide_floor(scaled, *denominator).first,
                    high = ceiling_divide(scaled, *denominator);
      if (!result) result = Interval{low, high};
      result = Interval{std::min(result->low, low), std::max(result->high, high)};
    }
  return *result;
}

Interval Numeric::root(const Interval& a, unsigned degree) {
  if (a.high.is_negative()) throw Undecided{};
  const auto floor_root = [&](const Integer& value) {
    const Integer scaled = value << precision_ * (degree - 1);
    const uint64_t size = precision_ / 32 + value.limbs() + 2;
    algebra_.budget().charge((12 + 2 * degree) * (scaled.limbs() * size * (degree > 2 ? 2 : 1) + 100));
    return scaled.root_floor(degree);
  };
  return {a.low.sign() > 0 ? floor_root(a.low) : Integer(0), floor_root(a.high) + Integer(1)};
}

Interval Numeric::power(const Interval& a, int64_t exponent) {
  if (exponent < 0) return divide(exact(Rational(1)), power(a, -exponent));
  Interval result = exact(Rational(1)), square = a;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = multiply(result, square);
    if (exponent > 1) square = multiply(square, square);
  }
  return result;
}

/// sum of (-1)^j / ((2j + 1) n^(2j + 1)): each division rounds by less than one unit.
Interval Numeric::arctangent_inverse(int64_t n) {
  Integer power = Integer::divide_floor(Integer::power_of_two(precision_), Integer(n)).first, sum(0);
  int64_t j = 0;
  for (; !power.is_zero(); ++j) {
    Integer term = power;
    term.divide_small(static_cast<uint32_t>(2 * j + 1));
    sum = j % 2 == 0 ? sum + term : sum - term;
    power.divide_small(static_cast<uint32_t>(n * n));
    algebra_.budget().charge(100 + 15 * power.limbs());
  }
  const Integer rounding_error(2 * j + 2);
  return {sum - rounding_error, sum + rounding_error};
}

Interval Numeric::pi() {
  if (!pi_) {  // Machin 1706
    const Interval a = arctangent_inverse(5), b = arctangent_inverse(239);
    pi_ = Interval{a.low * Integer(16) - b.high * Integer(4), a.high * Integer(16) - b.low * Integer(4)};
  }
  return *pi_;
}

Interval Numeric::log_two() {
  if (!log_two_)
    log_two_ = [this] {  // 2 artanh(1/3)
      Integer power = Integer::divide_floor(Integer::power_of_two(precision_ + 1), Integer(3)).first, sum(0);
      int64_t j = 0;
      for (; !power.is_zero(); ++j) {
        Integer term = power;
        term.divide_small(static_cast<uint32_t>(2 * j + 1));
        sum = sum + term;
        power.divide_small(9);
        algebra_.budget().charge(100 + 15 * power.limbs());
      }
      return Interval{sum, sum + Integer(2 * j + 2)};
    }();
  return *log_two_;
}

Interval Numeric::exponential(const Interval& a) {
  constexpr size_t kHalvings = 8;
  const Integer middle = (a.low + a.high) >> 1;
  if (middle.abs().bits() > precision_ + 13) throw Undecided{};  // beyond e^8192
  const int64_t binary_exponent = Integer::divide_floor(middle, log_two().low).first.to_int64();
  const Interval shift = multiply(exact(Rational(binary_exponent)), log_two());
  Interval rest = add(a, negate(shift));
  rest = {rest.low >> kHalvings, ceiling_shift(rest.high, kHalvings)};
  if (rest.high.abs().bits() >= precision_ || rest.low.abs().bits() >= precision_) throw Undecided{};
  Interval term = exact(Rational(1)), sum = term;
  for (int64_t n = 1; term.low.abs().bits() > 1 || term.high.abs().bits() > 1; ++n) {
    term = divide(multiply(term, rest), exact(Rational(n)));
    sum = add(sum, term);
  }
  sum = add(sum, {Integer(-4), Integer(4)});  // the remainder of the series is below the last term
  for (size_t i = 0; i < kHalvings; ++i) sum = multiply(sum, sum);
  if (binary_exponent >= 0)
    return {sum.low << static_cast<size_t>(binary_exponent), sum.high << static_cast<size_t>(binary_exponent)};
  return {sum.low >> static_cast<size_t>(-binary_exponent),
          ceiling_shift(sum.high, static_cast<size_t>(-binary_exponent))};
}

Interval Numeric::logarithm(const Interval& a) {
  if (a.low.sign() <= 0) throw Undecided{};
  const int64_t binary_exponent = static_cast<int64_t>(a.high.bits()) - static_cast<int64_t>(precision_);
  Interval x = a;
  if (binary_exponent > 0)
    x = {a.low >> static_cast<size_t>(binary_exponent), ceiling_shift(a.high, static_cast<size_t>(binary_exponent))};
  else
    x = {a.low << static_cast<size_t>(-binary_exponent), a.high << static_cast<size_t>(-binary_exponent)};
  const Interval one = exact(Rational(1));
  const Interval y = divide(add(x, negate(one)), add(x, one)), square = multiply(y, y);
  if (y.low.abs().bits() >= precision_) throw Undecided{};  // the enclosure is too wide
  Interval power = y, sum = y;
  for (int64_t n = 3; power.low.abs().bits() > 1 || power.high.abs().bits() > 1; n += 2) {
    power = multiply(power, square);
    sum = add(sum, divide(power, exact(Rational(n))));
  }
  sum = add(sum, {Integer(-4), Integer(4)});
  return add(add(sum, sum), multiply(exact(Rational(binary_exponent)), log_two()));
}

Interval Numeric::arctangent(const Interval& a) {
  constexpr int kHalvings = 3;
  const Interval one = exact(Rational(1));
  Interval x = a;
  for (int i = 0; i < kHalvings; ++i) x = divide(x, add(one, root(add(one, multiply(x, x)), 2)));
  const Interval square = multiply(x, x);
  Interval power = x, sum = x;
  for (int64_t n = 3; power.low.abs().bits() > 1 || power.high.abs().bits() > 1; n += 2) {
    power = negate(multiply(power, square));
    sum = add(sum, divide(power, exact(Rational(n))));
  }
  sum = add(sum, {Integer(-4), Integer(4)});
  for (int i = 0; i < kHalvings; ++i) sum = add(sum, sum);
  return sum;
}

Interval Numeric::sine(const Interval& a) {
  const Interval one = exact(Rational(1));
  const Integer half_turn = pi().low >> 1;
  const Integer middle = ((a.low + a.high) >> 1) + (half_turn >> 1);
  const Integer quarters = Integer::divide_floor(middle, half_turn).first;
  if (quarters.bits() > 64) throw Undecided{};
  const Interval half_pi = {pi().low >> 1, ceiling_shift(pi().high, 1)};
  const Interval rest = add(a, negate(multiply(exact(Rational(quarters)), half_pi)));
  if (rest.low.abs().bits() > precision_ || rest.high.abs().bits() > precision_) return {-one.high, one.high};
  const int64_t quarter = (Integer::divide_floor(quarters, Integer(4)).second).to_int64();
  const bool is_cosine = quarter % 2 == 1;
  const Interval square = multiply(rest, rest);
  Interval term = is_cosine ? one : rest, sum = term;
  for (int64_t n = is_cosine ? 1 : 2; term.low.abs().bits() > 1 || term.high.abs().bits() > 1; n += 2) {
    term = negate(divide(multiply(term, square), exact(Rational(n * (n + 1)))));
    sum = add(sum, term);
  }
  sum = add(sum, {Integer(-4), Integer(4)});
  return quarter >= 2 ? negate(sum) : sum;
}

ComplexInterval Numeric::multiply(const ComplexInterval& a, const ComplexInterval& b) {
  return {add(multiply(a.real, b.real), negate(multiply(a.imaginary, b.imaginary))),
          add(multiply(a.real, b.imaginary), multiply(a.imaginary, b.real))};
}

ComplexInterval Numeric::divide(const ComplexInterval& a, const ComplexInterval& b) {
  const Interval squared_modulus = add(multiply(b.real, b.real), multiply(b.imaginary, b.imaginary));
  const ComplexInterval numerator = multiply(a, {b.real, negate(b.imaginary)});
  return {divide(numerator.real, squared_modulus), divide(numerator.imaginary, squared_modulus)};
}

ComplexInterval Numeric::power(const ComplexInterval& a, int64_t exponent) {
  const Interval zero = exact(Rational(0));
  if (exponent < 0) return divide({exact(Rational(1)), zero}, power(a, -exponent));
  ComplexInterval result{exact(Rational(1)), zero}, square = a;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = multiply(result, square);
    if (exponent > 1) square = multiply(square, square);
  }
  return result;
}

/// Real part of a value that must be real.
Interval Numeric::real(const ComplexInterval& a) const {
  if (!a.imaginary.contains_zero()) throw Undecided{};
  return a.real;
}

ComplexInterval Numeric::atom_power(int id, Exponent exponent) {
  const auto cached = powers_.find({id, exponent});
  if (cached != powers_.end()) return cached->second;
  const Atom& atom = algebra_.atom(id);
  const Interval zero = exact(Rational(0));
  const auto real_power = [&](Interval value) -> ComplexInterval {
    if (exponent.is_integer()) return {power(value, exponent.numerator), zero};
    if (exponent.denominator > 1000) throw Undecided{};
    const bool is_negated = exponent.denominator % 2 != 0 && value.high.is_negative();
    if (is_negated) value = negate(value);
    Interval result = power(root(value, static_cast<unsigned>(exponent.denominator)), exponent.numerator);
    if (is_negated && exponent.numerator % 2 != 0) result = negate(result);
    return {result, zero};
  };
  const auto complex_exponential = [&](const ComplexInterval& z) -> ComplexInterval {
    const Interval modulus = exponential(z.real);
    if (z.imaginary.low.is_zero() && z.imaginary.high.is_zero()) return {modulus, zero};
    return {multiply(modulus, cosine(z.imaginary)), multiply(modulus, sine(z.imaginary))};
  };
  const Rational count(Integer(exponent.numerator), Integer(exponent.denominator));
  const auto compute = [&]() -> ComplexInterval {
    switch (atom.kind) {
      case AtomKind::kImaginary:
        return power(ComplexInterval{zero, exact(Rational(1))}, exponent.numerator);
      case AtomKind::kPi:
        return real_power(pi());
      case AtomKind::kPrime:
        return real_power(exact(Rational(atom.integer)));
      case AtomKind::kUnity: {
        const Interval angle = multiply(pi(), exact(count));
        return {cosine(angle), sine(angle)};
      }
      case AtomKind::kRoot:
        return real_power(real(evaluate(atom.arguments[0])));
      case AtomKind::kExponential: {
        if (!atom.arguments.empty()) throw Undecided{};
        ComplexInterval z = evaluate(Polynomial{{atom.unit, count}});
        if (!atom.integer.is_zero()) z = multiply(z, {logarithm(exact(Rational(atom.integer))), zero});
        return complex_exponential(z);
      }
      case AtomKind::kFunction: {
        const Interval one = exact(Rational(1));
        const auto argument = [&] { return real(evaluate(atom.arguments[0])); };
        if (atom.name == "ln") return real_power(logarithm(argument()));
        if (atom.name == "sin") return real_power(sine(argument()));
        if (atom.name == "cos") return real_power(cosine(argument()));
        if (atom.name == "atan") return real_power(arctangent(argument()));
        if (atom.name == "asin" || atom.name == "acos") {
          const Interval x = argument();
          const Interval angle = arctangent(divide(x, root(add(one, negate(multiply(x, x))), 2)));
          if (atom.name == "asin") return real_power(angle);
          return real_power(add({pi().low >> 1, ceiling_shift(pi().high, 1)}, negate(angle)));
        }
        throw Undecided{};
      }
      default:
        throw Undecided{};
    }
  };
  return powers_.emplace(std::pair{id, exponent}, compute()).first->second;
}

ComplexInterval Numeric::evaluate(const Polynomial& a) {
  const Interval zero = exact(Rational(0));
  ComplexInterval sum{zero, zero};
  for (const auto& [monomial, coefficient] : a) {
    ComplexInterval product{exact(coefficient), zero};
    for (const auto& [id, exponent] : monomial) product = multiply(product, atom_power(id, exponent));
    sum = {add(sum.real, product.real), add(sum.imaginary, product.imaginary)};
  }
  return sum;
}

ComplexInterval Numeric::evaluate(const Form& a) {
  const ComplexInterval numerator = evaluate(a.numerator);
  const bool whole = a.denominator.size() == 1 && a.denominator.begin()->first.empty();
  return whole ? numerator : divide(numerator, evaluate(a.denominator));
}

}  // namespace keel::math
