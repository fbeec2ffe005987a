// Decides the sign of real constants, and whether algebraic constants are zero.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "libs/mathverify/algebra/algebra.h"
#include "libs/mathverify/algebra/enclosure.h"

namespace keel::math {
namespace {

constexpr size_t kPrecisions[] = {96, 400, 1600};

/// Bounds the degree of a number field that contains an expression, and the size of all its conjugates.
class Conjugates {
 public:
  explicit Conjugates(const Algebra& algebra) : algebra_(algebra) {}

  /// log2 of a bound on every conjugate of an algebraic integer; nullopt if it is not one.
  std::optional<double> log_size(const Polynomial& a) {
    double largest = 0;
    for (const auto& [monomial, coefficient] : a) {
      if (!coefficient.is_integer()) return std::nullopt;
      double size = static_cast<double>(coefficient.numerator().bits());
      for (const auto& [id, exponent] : monomial) {
        const std::optional<double> base = log_size(id, exponent);
        if (!base) return std::nullopt;
        size += *base * static_cast<double>(exponent.numerator) / static_cast<double>(exponent.denominator);
      }
      largest = std::max(largest, size);
    }
    return largest + std::log2(static_cast<double>(a.size()) + 1) + 0.01;
  }

  double degree() const {
    double product = 1;
    for (const auto& [id, atom_degree] : degrees_) product *= static_cast<double>(atom_degree);
    return product;
  }

 private:
  std::optional<double> log_size(int id, Exponent exponent) {
    const Atom& atom = algebra_.atom(id);
    const auto [degree, is_new] = degrees_.try_emplace(id, 1);
    degree->second = std::lcm(std::min<int64_t>(degree->second, 1 << 20), exponent.denominator);
    if (atom.kind == AtomKind::kImaginary || atom.kind == AtomKind::kUnity) {
      degree->second = std::lcm(degree->second, 2 * exponent.denominator);
      return 0.0;
    }
    if (exponent.numerator < 0) return std::nullopt;
    if (atom.kind == AtomKind::kPrime) return static_cast<double>(atom.integer.bits());
    if (atom.kind != AtomKind::kRoot || atom.arguments[0].denominator.size() != 1) return std::nullopt;
    const auto known = sizes_.find(id);
    if (known != sizes_.end()) return known->second;
    const std::optional<double> size = log_size(atom.arguments[0].numerator);
    sizes_[id] = size;
    return size;
  }

  const Algebra& algebra_;
  std::map<int, int64_t> degrees_;
  std::map<int, std::optional<double>> sizes_;
};

bool is_within(const Interval& a, const Integer& bound) { return a.low > -bound && a.high < bound; }

}  // namespace

/// A non-zero algebraic integer has a norm of at least 1, so it is at least 1 / (bound on conjugates)^(degree - 1). An
/// enclosure below that bound proves that it is 0. (Primitive roots, roots of unity and i are algebraic integers, and
/// each root is primitive.)
bool Algebra::is_algebraic_zero(const Polynomial& a) {
  if (a.empty()) return true;
  Rational content;
  const Form primitive_part = primitive(a, content, false);
  if (primitive_part.numerator.size() == 1) return false;
  const ComplexInterval rough = Numeric(*this, kPrecisions[0]).evaluate(primitive_part.numerator);
  if (!rough.real.contains_zero() || !rough.imaginary.contains_zero()) return false;
  Conjugates conjugates(*this);
  const std::optional<double> size = conjugates.log_size(primitive_part.numerator);
  constexpr double kMaxPrecision = 6000;
  if (!size || conjugates.degree() * *size > kMaxPrecision) return false;
  const size_t needed = static_cast<size_t>(conjugates.degree() * *size) + 2;
  constexpr size_t kGuard = 128;
  const ComplexInterval value = Numeric(*this, needed + kGuard).evaluate(primitive_part.numerator);
  const Integer bound = Integer::power_of_two(kGuard);
  return is_within(value.real, bound) && is_within(value.imaginary, bound);
}

/// Complex conjugate; throws Undecided for functions of complex arguments.
Polynomial Algebra::conjugate(const Polynomial& a) {
  Polynomial result;
  for (const auto& [monomial, coefficient] : a) {
    Monomial conjugated = monomial;
    Rational factor = coefficient;
    for (auto& [id, exponent] : conjugated) {
      const Atom& factor_atom = atom(id);
      if (!factor_atom.has_imaginary) continue;
      if (factor_atom.kind == AtomKind::kImaginary || factor_atom.kind == AtomKind::kUnity)
        exponent = exponent * Exponent{-1, 1};
      else if (factor_atom.kind == AtomKind::kExponential && factor_atom.arguments.empty()) {
        // conj(e^(i x)) = e^(-i x) for a unit that is i times something real
        bool rest_is_real = true;
        for (const auto& [inner, power] : factor_atom.unit)
          if (atom(inner).kind != AtomKind::kImaginary && atom(inner).has_imaginary) rest_is_real = false;
        if (!rest_is_real) throw Undecided{};
        exponent = exponent * Exponent{-1, 1};
      } else if (factor_atom.kind != AtomKind::kRoot ||
                 sign(factor_atom.arguments[0]) != 1) {  // a root of a real number is real
        throw Undecided{};
      }
    }
    add_reduced(result, std::move(conjugated), factor);
  }
  return result;
}

std::optional<int> Algebra::sign(const Form& a) {
  if (const std::optional<Rational> value = as_rational(a)) return value->sign();
  if (has_variables(a)) return std::nullopt;
  try {
    if (is_zero(a.numerator)) return 0;
    for (const Polynomial* part : {&a.numerator, &a.denominator})
      if (contains_imaginary(*part) && !is_zero(add(*part, conjugate(*part), Rational(-1)))) return std::nullopt;
    for (const size_t precision : kPrecisions) {
      const Interval value = Numeric(*this, precision).evaluate(a).real;
      if (!value.contains_zero()) return value.low.sign() > 0 ? 1 : -1;
    }
  } catch (const Undecided&) {
  }
  return std::nullopt;
}

std::optional<Integer> Numeric::floor_of(Algebra& algebra, const Form& a) {
  if (!algebra.sign(a)) return std::nullopt;  // not real
  for (const size_t precision : kPrecisions) {
    const ComplexInterval value = Numeric(algebra, precision).evaluate(a);
    if (!value.imaginary.contains_zero()) return std::nullopt;
    const Integer low = value.real.low >> precision, high = value.real.high >> precision;
    if (low == high) return low;
    if (algebra.equal(a, algebra.number(Rational(high)))) return high;
  }
  return std::nullopt;
}

}  // namespace keel::math
