#pragma once

// Arbitrary-size integers up to a bit limit, for the math verifier: sign and magnitude with schoolbook algorithms.
// Answers are untrusted, so every result is checked against the limit.

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace keel::math {

/// Thrown inside the verifier if something cannot be decided within its budgets; the answer then counts as wrong.
struct Undecided {};

class Integer {
 public:
  /// Results above this many bits throw Undecided. The limit leaves space for products in interval arithmetic.
  static constexpr size_t kMaxBits = size_t{1} << 18;

  Integer(int64_t value = 0);  // NOLINT: numbers convert
  /// Parses decimal digits; throws Undecided if there are too many.
  static Integer from_digits(std::string_view digits);
  static Integer power_of_two(size_t exponent);

  bool is_zero() const { return limbs_.empty(); }
  bool is_negative() const { return negative_; }
  bool is_odd() const { return !limbs_.empty() && (limbs_[0] & 1); }
  bool is_one() const { return !negative_ && limbs_.size() == 1 && limbs_[0] == 1; }
  int sign() const { return limbs_.empty() ? 0 : negative_ ? -1 : 1; }
  size_t bits() const;
  size_t limbs() const { return limbs_.size(); }
  bool fits_int64() const;
  int64_t to_int64() const;
  std::string to_string() const;

  Integer operator-() const;
  Integer abs() const { return negative_ ? -*this : *this; }
  Integer operator+(const Integer& other) const;
  Integer operator-(const Integer& other) const { return *this + -other; }
  Integer operator*(const Integer& other) const;
  Integer operator<<(size_t count) const;
  /// Rounds towards minus infinity, as >> of two's complement does.
  Integer operator>>(size_t count) const;
  std::strong_ordering operator<=>(const Integer& other) const;
  bool operator==(const Integer& other) const = default;

  /// Quotient rounded towards minus infinity, and a remainder with the divisor's sign. The divisor is not 0.
  static std::pair<Integer, Integer> divide_floor(const Integer& dividend, const Integer& divisor);
  static Integer gcd(Integer a, Integer b);
  Integer power(uint64_t exponent) const;
  /// The largest r with r^degree <= *this, which must not be negative.
  Integer root_floor(unsigned degree) const;
  /// Divides by a small number in place and returns the remainder of the magnitude.
  uint32_t divide_small(uint32_t divisor);
  uint32_t modulo_small(uint32_t divisor) const;

 private:
  static int compare_magnitude(const Integer& a, const Integer& b);
  static Integer add_magnitude(const Integer& a, const Integer& b);
  static Integer subtract_magnitude(const Integer& a, const Integer& b);  // |a| >= |b|
  static std::pair<Integer, Integer> divide_magnitude(const Integer& a, const Integer& b);
  void trim();

  bool negative_ = false;
  std::vector<uint32_t> limbs_;  // little-endian, no leading zeros; empty is 0 and not negative
};

}  // namespace keel::math
