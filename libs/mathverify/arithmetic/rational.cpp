#include "libs/mathverify/arithmetic/rational.h"

namespace keel::math {

Rational::Rational(Integer numerator, Integer denominator)
    : numerator_(std::move(numerator)), denominator_(std::move(denominator)) {
  if (denominator_.is_zero()) throw Undecided{};
  if (denominator_.is_negative()) {
    numerator_ = -numerator_;
    denominator_ = -denominator_;
  }
  if (!denominator_.is_one()) {
    const Integer common = Integer::gcd(numerator_, denominator_);
    if (!common.is_one()) {
      numerator_ = Integer::divide_floor(numerator_, common).first;
      denominator_ = Integer::divide_floor(denominator_, common).first;
    }
  }
  if (numerator_.bits() > kMaxBits || denominator_.bits() > kMaxBits) throw Undecided{};
}

std::string Rational::to_string() const {
  return is_integer() ? numerator_.to_string() : numerator_.to_string() + "/" + denominator_.to_string();
}

Rational Rational::operator-() const {
  Rational result = *this;
  result.numerator_ = -numerator_;
  return result;
}

Rational Rational::operator+(const Rational& other) const {
  if (is_integer() && other.is_integer()) return Rational(numerator_ + other.numerator_);
  return Rational(numerator_ * other.denominator_ + other.numerator_ * denominator_, denominator_ * other.denominator_);
}

Rational Rational::operator*(const Rational& other) const {
  return Rational(numerator_ * other.numerator_, denominator_ * other.denominator_);
}

Rational Rational::operator/(const Rational& other) const {
  return Rational(numerator_ * other.denominator_, denominator_ * other.numerator_);
}

std::strong_ordering Rational::operator<=>(const Rational& other) const {
  return numerator_ * other.denominator_ <=> other.numerator_ * denominator_;
}

Rational Rational::power(int64_t exponent) const {
  const uint64_t count = exponent < 0 ? uint64_t{0} - static_cast<uint64_t>(exponent) : static_cast<uint64_t>(exponent);
  const size_t longest = std::max(numerator_.bits(), denominator_.bits());
  if (longest > 1 && (count > kMaxBits || (longest - 1) * count > kMaxBits)) throw Undecided{};
  if (exponent < 0) return Rational(denominator_.power(count), numerator_.power(count));
  return Rational(numerator_.power(count), denominator_.power(count));
}

}  // namespace keel::math
