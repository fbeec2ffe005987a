#include "libs/mathverify/arithmetic/integer.h"

#include <algorithm>
#include <bit>

namespace keel::math {

Integer::Integer(int64_t value) : negative_(value < 0) {
  uint64_t magnitude = negative_ ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  for (; magnitude != 0; magnitude >>= 32) limbs_.push_back(static_cast<uint32_t>(magnitude));
}

Integer Integer::from_digits(std::string_view digits) {
  if (digits.size() > kMaxBits / 4) throw Undecided{};
  Integer result;
  for (size_t at = 0; at < digits.size();) {
    uint32_t chunk = 0, scale = 1;
    for (int count = 0; count < 9 && at < digits.size(); ++count, ++at) {
      chunk = chunk * 10 + static_cast<uint32_t>(digits[at] - '0');
      scale *= 10;
    }
    uint64_t carry = chunk;
    for (uint32_t& limb : result.limbs_) {
      carry += static_cast<uint64_t>(limb) * scale;
      limb = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) result.limbs_.push_back(static_cast<uint32_t>(carry));
  }
  return result;
}

Integer Integer::power_of_two(size_t exponent) { return Integer(1) << exponent; }

size_t Integer::bits() const {
  return limbs_.empty() ? 0 : limbs_.size() * 32 - static_cast<size_t>(std::countl_zero(limbs_.back()));
}

bool Integer::fits_int64() const { return bits() <= 63; }

int64_t Integer::to_int64() const {
  if (!fits_int64()) throw Undecided{};
  uint64_t magnitude = 0;
  for (size_t i = limbs_.size(); i-- > 0;) magnitude = magnitude << 32 | limbs_[i];
  return negative_ ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
}

std::string Integer::to_string() const {
  if (is_zero()) return "0";
  Integer rest = abs();
  std::string reversed;
  while (!rest.is_zero()) {
    uint32_t chunk = rest.divide_small(1'000'000'000);
    for (int i = 0; i < 9 && (chunk != 0 || !rest.is_zero()); ++i, chunk /= 10)
      reversed += static_cast<char>('0' + chunk % 10);
  }
  if (negative_) reversed += '-';
  std::reverse(reversed.begin(), reversed.end());
  return reversed;
}

void Integer::trim() {
  while (!limbs_.empty() && limbs_.back() == 0) limbs_.pop_back();
  if (limbs_.empty()) negative_ = false;
}

Integer Integer::operator-() const {
  Integer result = *this;
  if (!result.is_zero()) result.negative_ = !negative_;
  return result;
}

int Integer::compare_magnitude(const Integer& a, const Integer& b) {
  if (a.limbs_.size() != b.limbs_.size()) return a.limbs_.size() < b.limbs_.size() ? -1 : 1;
  for (size_t i = a.limbs_.size(); i-- > 0;)
    if (a.limbs_[i] != b.limbs_[i]) return a.limbs_[i] < b.limbs_[i] ? -1 : 1;
  return 0;
}

std::strong_ordering Integer::operator<=>(const Integer& other) const {
  if (sign() != other.sign()) return sign() <=> other.sign();
  const int magnitude = compare_magnitude(*this, other);
  return (negative_ ? -magnitude : magnitude) <=> 0;
}

Integer Integer::add_magnitude(const Integer& a, const Integer& b) {
  const Integer& longer = a.limbs_.size() >= b.limbs_.size() ? a : b;
  const Integer& shorter = &longer == &a ? b : a;
  Integer sum;
  sum.limbs_.resize(longer.limbs_.size() + 1);
  uint64_t carry = 0;
  for (size_t i = 0; i < longer.limbs_.size(); ++i) {
    carry += longer.limbs_[i];
    if (i < shorter.limbs_.size()) carry += shorter.limbs_[i];
    sum.limbs_[i] = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  sum.limbs_.back() = static_cast<uint32_t>(carry);
  sum.trim();
  return sum;
}

Integer Integer::subtract_magnitude(const Integer& a, const Integer& b) {
  Integer difference;
  difference.limbs_.resize(a.limbs_.size());
  int64_t borrow = 0;
  for (size_t i = 0; i < a.limbs_.size(); ++i) {
    int64_t value = static_cast<int64_t>(a.limbs_[i]) - borrow;
    if (i < b.limbs_.size()) value -= b.limbs_[i];
    borrow = value < 0;
    difference.limbs_[i] = static_cast<uint32_t>(value);
  }
  difference.trim();
  return difference;
}

Integer Integer::operator+(const Integer& other) const {
  Integer result;
  if (negative_ == other.negative_) {
    result = add_magnitude(*this, other);
    result.negative_ = negative_ && !result.is_zero();
    return result;
  }
  const int order = compare_magnitude(*this, other);
  if (order == 0) return result;
  result = order > 0 ? subtract_magnitude(*this, other) : subtract_magnitude(other, *this);
  result.negative_ = order > 0 ? negative_ : other.negative_;
  return result;
}

Integer Integer::operator*(const Integer& other) const {
  Integer product;
  if (is_zero() || other.is_zero()) return product;
  if (bits() + other.bits() > kMaxBits) throw Undecided{};
  product.limbs_.assign(limbs_.size() + other.limbs_.size(), 0);
  for (size_t i = 0; i < limbs_.size(); ++i) {
    uint64_t carry = 0;
    const uint64_t factor = limbs_[i];
    for (size_t j = 0; j < other.limbs_.size(); ++j) {
      carry += factor * other.limbs_[j] + product.limbs_[i + j];
      product.limbs_[i + j] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    product.limbs_[i + other.limbs_.size()] = static_cast<uint32_t>(carry);
  }
  product.negative_ = negative_ != other.negative_;
  product.trim();
  return product;
}

Integer Integer::operator<<(size_t count) const {
  if (is_zero()) return *this;
  if (bits() + count > kMaxBits) throw Undecided{};
  const size_t words = count / 32, shift = count % 32;
  Integer result;
  result.negative_ = negative_;
  result.limbs_.assign(limbs_.size() + words + 1, 0);
  for (size_t i = 0; i < limbs_.size(); ++i) {
    const uint64_t wide = static_cast<uint64_t>(limbs_[i]) << shift;
    result.limbs_[i + words] |= static_cast<uint32_t>(wide);
    result.limbs_[i + words + 1] = static_cast<uint32_t>(wide >> 32);
  }
  result.trim();
  return result;
}

Integer Integer::operator>>(size_t count) const {
  const size_t words = count / 32, shift = count % 32;
  if (words >= limbs_.size()) return negative_ ? Integer(-1) : Integer(0);
  Integer result;
  bool lost = false;
  for (size_t i = 0; i < words; ++i) lost |= limbs_[i] != 0;
  lost |= (limbs_[words] & ((uint64_t{1} << shift) - 1)) != 0;
  result.limbs_.resize(limbs_.size() - words);
  for (size_t i = words; i < limbs_.size(); ++i) {
    uint64_t wide = limbs_[i];
    if (i + 1 < limbs_.size()) wide |= static_cast<uint64_t>(limbs_[i + 1]) << 32;
    result.limbs_[i - words] = static_cast<uint32_t>(wide >> shift);
  }
  result.negative_ = negative_;
  result.trim();
  return negative_ && lost ? result - Integer(1) : result;
}

uint32_t Integer::divide_small(uint32_t divisor) {
  uint64_t remainder = 0;
  for (size_t i = limbs_.size(); i-- > 0;) {
    remainder = remainder << 32 | limbs_[i];
    limbs_[i] = static_cast<uint32_t>(remainder / divisor);
    remainder %= divisor;
  }
  trim();
  return static_cast<uint32_t>(remainder);
}

uint32_t Integer::modulo_small(uint32_t divisor) const {
  uint64_t remainder = 0;
  for (size_t i = limbs_.size(); i-- > 0;) remainder = (remainder << 32 | limbs_[i]) % divisor;
  return static_cast<uint32_t>(remainder);
}

/// Knuth's algorithm D (The Art of Computer Programming, 4.3.1).
std::pair<Integer, Integer> Integer::divide_magnitude(const Integer& a, const Integer& b) {
  if (compare_magnitude(a, b) < 0) return {Integer(), a.abs()};
  if (b.limbs_.size() == 1) {
    Integer quotient = a.abs();
    const uint32_t remainder = quotient.divide_small(b.limbs_[0]);
    return {quotient, Integer(static_cast<int64_t>(remainder))};
  }
  const size_t shift = static_cast<size_t>(std::countl_zero(b.limbs_.back()));
  std::vector<uint32_t> v(b.limbs_.size()), u(a.limbs_.size() + 1, 0);
  const auto shifted = [shift](const std::vector<uint32_t>& from, std::vector<uint32_t>& to) {
    uint64_t carry = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      carry |= static_cast<uint64_t>(from[i]) << shift;
      to[i] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (to.size() > from.size()) to[from.size()] = static_cast<uint32_t>(carry);
  };
  shifted(b.limbs_, v);
  shifted(a.limbs_, u);
  const size_t n = v.size();
  Integer quotient;
  quotient.limbs_.assign(u.size() - n, 0);
  for (size_t j = u.size() - n; j-- > 0;) {
    const uint64_t top = static_cast<uint64_t>(u[j + n]) << 32 | u[j + n - 1];
    uint64_t digit = top / v[n - 1], rest = top % v[n - 1];
    while (digit >> 32 || digit * v[n - 2] > (rest << 32 | u[j + n - 2])) {
      --digit;
      rest += v[n - 1];
      if (rest >> 32) break;
    }
    int64_t borrow = 0;
    uint64_t carry = 0;
    for (size_t i = 0; i < n; ++i) {
      carry += digit * v[i];
      const int64_t value = static_cast<int64_t>(u[i + j]) - static_cast<int64_t>(carry & 0xFFFFFFFF) - borrow;
      u[i + j] = static_cast<uint32_t>(value);
      borrow = value < 0;
      carry >>= 32;
    }
    const int64_t value = static_cast<int64_t>(u[j + n]) - static_cast<int64_t>(carry) - borrow;
    u[j + n] = static_cast<uint32_t>(value);
    if (value < 0) {  // the quotient estimate was one too large
      --digit;
      uint64_t sum = 0;
      for (size_t i = 0; i < n; ++i) {
        sum += static_cast<uint64_t>(u[i + j]) + v[i];
        u[i + j] = static_cast<uint32_t>(sum);
        sum >>= 32;
      }
      u[j + n] += static_cast<uint32_t>(sum);
    }
    quotient.limbs_[j] = static_cast<uint32_t>(digit);
  }
  quotient.trim();
  Integer remainder;
  remainder.limbs_.assign(u.begin(), u.begin() + static_cast<std::ptrdiff_t>(n));
  remainder.trim();
  return {quotient, remainder >> shift};
}

std::pair<Integer, Integer> Integer::divide_floor(const Integer& dividend, const Integer& divisor) {
  auto [quotient, remainder] = divide_magnitude(dividend, divisor);
  if (dividend.negative_ != divisor.negative_) {
    quotient = -quotient;
    if (!remainder.is_zero()) {
      quotient = quotient - Integer(1);
      remainder = divisor.abs() - remainder;
    }
  }
  return {quotient, divisor.negative_ ? -remainder : remainder};
}

Integer Integer::gcd(Integer a, Integer b) {
  a.negative_ = b.negative_ = false;
  while (!b.is_zero()) {
    if (a.limbs_.size() <= 2 && b.limbs_.size() <= 2) {
      const auto wide = [](const Integer& x) {
        uint64_t value = 0;
        for (size_t i = x.limbs_.size(); i-- > 0;) value = value << 32 | x.limbs_[i];
        return value;
      };
      uint64_t x = wide(a), y = wide(b);
      while (y != 0) x = std::exchange(y, x % y);
      Integer result;
      for (; x != 0; x >>= 32) result.limbs_.push_back(static_cast<uint32_t>(x));
      return result;
    }
    a = std::exchange(b, divide_magnitude(a, b).second);
  }
  return a;
}

Integer Integer::power(uint64_t exponent) const {
  if (bits() > 1 && exponent > kMaxBits) throw Undecided{};
  Integer result(1), square = *this;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = result * square;
    if (exponent > 1) square = square * square;
  }
  return result;
}

Integer Integer::root_floor(unsigned degree) const {
  if (is_zero() || degree == 1) return *this;
  // Newton's iteration from above decreases monotonically to the result.
  Integer guess = power_of_two(bits() / degree + 1);
  while (true) {
    const Integer next =
        divide_floor(guess * Integer(degree - 1) + divide_floor(*this, guess.power(degree - 1)).first, Integer(degree))
            .first;
    if (next >= guess) return guess;
    guess = next;
  }
}

}  // namespace keel::math
