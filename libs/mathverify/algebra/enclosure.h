#pragma once

#include <optional>

#include "libs/mathverify/algebra/algebra.h"

namespace keel::math {

/// The interval between two multiples of 2^-precision.
struct Interval {
  Integer low, high;
  bool contains_zero() const { return low.sign() <= 0 && high.sign() >= 0; }
};

struct ComplexInterval {
  Interval real, imaginary;
};

/// Interval arithmetic on constants. Every result contains the true value, so "does not contain 0" is a proof.
class Numeric {
 public:
  Numeric(Algebra& algebra, size_t precision) : algebra_(algebra), precision_(precision) {}

  ComplexInterval evaluate(const Polynomial& a);
  ComplexInterval evaluate(const Form& a);

  /// The floor of a real constant, if the enclosures determine it.
  static std::optional<Integer> floor_of(Algebra& algebra, const Form& a);

 private:
  Interval exact(const Rational& value);
  Interval add(const Interval& a, const Interval& b) const { return {a.low + b.low, a.high + b.high}; }
  Interval negate(const Interval& a) const { return {-a.high, -a.low}; }
  Interval multiply(const Interval& a, const Interval& b);
  Interval divide(const Interval& a, const Interval& b);
  Interval root(const Interval& a, unsigned degree);
  Interval power(const Interval& a, int64_t exponent);
  Interval exponential(const Interval& a);
  Interval logarithm(const Interval& a);
  Interval arctangent(const Interval& a);
  Interval arctangent_inverse(int64_t n);  // of 1 / n
  Interval pi();
  Interval log_two();
  Interval cosine(const Interval& a) { return sine(add(a, {pi().low >> 1, (pi().high >> 1) + Integer(1)})); }
  Interval sine(const Interval& a);
  ComplexInterval multiply(const ComplexInterval& a, const ComplexInterval& b);
  ComplexInterval divide(const ComplexInterval& a, const ComplexInterval& b);
  ComplexInterval power(const ComplexInterval& a, int64_t exponent);
  ComplexInterval atom_power(int id, Exponent exponent);
  Interval real(const ComplexInterval& a) const;
  void charge(const Integer& a, const Integer& b) { algebra_.budget().charge(100 + a.limbs() * b.limbs()); }

  Algebra& algebra_;
  size_t precision_;
  std::optional<Interval> pi_, log_two_;
  std::map<std::pair<int, Exponent>, ComplexInterval> powers_;  // nested roots are evaluated once
};

}  // namespace keel::math
