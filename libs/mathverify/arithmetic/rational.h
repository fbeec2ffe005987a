#pragma once

#include <string>

#include "libs/mathverify/arithmetic/integer.h"

namespace keel::math {

/// An exact fraction in lowest terms with a positive denominator. Results above kMaxBits throw Undecided.
class Rational {
 public:
  static constexpr size_t kMaxBits = size_t{1} << 14;

  Rational(int64_t value = 0) : numerator_(value), denominator_(1) {}  // NOLINT: numbers convert
  Rational(Integer numerator, Integer denominator = 1);                // NOLINT; the denominator is not 0

  const Integer& numerator() const { return numerator_; }
  const Integer& denominator() const { return denominator_; }
  bool is_zero() const { return numerator_.is_zero(); }
  bool is_integer() const { return denominator_.is_one(); }
  bool is_one() const { return is_integer() && numerator_.is_one(); }
  int sign() const { return numerator_.sign(); }
  size_t limbs() const { return numerator_.limbs() + denominator_.limbs(); }
  Rational abs() const { return sign() < 0 ? -*this : *this; }
  Integer floor() const { return Integer::divide_floor(numerator_, denominator_).first; }
  std::string to_string() const;

  Rational operator-() const;
  Rational operator+(const Rational& other) const;
  Rational operator-(const Rational& other) const { return *this + -other; }
  Rational operator*(const Rational& other) const;
  Rational operator/(const Rational& other) const;  // division by 0 throws Undecided
  bool operator==(const Rational& other) const = default;
  std::strong_ordering operator<=>(const Rational& other) const;
  Rational power(int64_t exponent) const;

 private:
  Integer numerator_, denominator_;
};

}  // namespace keel::math
