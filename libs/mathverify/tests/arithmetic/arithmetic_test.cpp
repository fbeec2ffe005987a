// Expected numbers come from Python's integers and mpmath.

#include <gtest/gtest.h>

#include "libs/mathverify/algebra/enclosure.h"

namespace keel::math {
namespace {

TEST(MathInteger, AgreesWithPython) {
  EXPECT_EQ(Integer(7).power(60).to_string(), "508021860739623365322188197652216501772434524836001");
  EXPECT_EQ(Integer::from_digits("340282366920938463463374607431768211456"), Integer::power_of_two(128));
  const Integer a = Integer::from_digits("123456789012345678901234567890123456789");
  const Integer b = Integer::from_digits("987654321098765432109");
  EXPECT_EQ((a * b).to_string(), "121932631137021795226076817523607681752348574912122374638001");
  const auto [quotient, remainder] = Integer::divide_floor(a, b);
  EXPECT_EQ(quotient.to_string(), "124999998860937500");
  EXPECT_EQ(remainder.to_string(), "14172067901781269289");
  EXPECT_EQ(Integer::gcd(Integer(2).power(70) * Integer(9), Integer(6).power(40)), Integer(2).power(40) * Integer(9));
  EXPECT_EQ(Integer(10).power(40).root_floor(2).to_string(), "100000000000000000000");
  EXPECT_EQ(Integer(10).power(41).root_floor(3).to_string(), "46415888336127");
  EXPECT_EQ((Integer(-5) >> 1), Integer(-3));
  EXPECT_EQ(Integer::divide_floor(Integer(-7), Integer(2)).first, Integer(-4));
  EXPECT_EQ(Integer::divide_floor(Integer(-7), Integer(2)).second, Integer(1));
}

TEST(MathInteger, DivisionUndoesMultiplicationForManySizes) {
  uint64_t state = 1;
  const auto random_integer = [&](size_t limbs) {
    Integer value(0);
    for (size_t i = 0; i < limbs; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      // all-ones and all-zero limbs give wrong estimates of a quotient digit
      const uint64_t pick = state >> 61, limb = pick == 0 ? 0 : pick == 1 ? 0xFFFFFFFF : (state >> 29) & 0xFFFFFFFF;
      value = (value << 32) + Integer(static_cast<int64_t>(limb));
    }
    return value;
  };
  for (size_t size = 1; size < 12; ++size)
    for (size_t other = 1; other < 12; ++other)
      for (int repeat = 0; repeat < 30; ++repeat) {
        const Integer a = random_integer(size), b = random_integer(other) + Integer(1);
        const auto [quotient, remainder] = Integer::divide_floor(a, b);
        EXPECT_EQ(quotient * b + remainder, a);
        EXPECT_TRUE(remainder.sign() >= 0 && remainder < b);
      }
}

TEST(MathInteger, ThrowsUndecidedAboveTheSizeLimit) {
  EXPECT_THROW(Integer(10).power(1'000'000), Undecided);
  EXPECT_THROW(Integer(3).power(200'000), Undecided);
  EXPECT_THROW(Rational(2).power(20'000), Undecided);
}

/// The enclosure of a constant, to 50 decimals; both ends must agree with the digits of mpmath.
void expect_digits(Algebra& algebra, const Form& value, const std::string& digits) {
  constexpr size_t kPrecision = 400;
  const Interval enclosure = Numeric(algebra, kPrecision).evaluate(value).real;
  for (const Integer& end : {enclosure.low, enclosure.high})
    EXPECT_EQ(((end * Integer(10).power(50)) >> kPrecision).to_string(), digits);
}

TEST(MathNumeric, EnclosesConstantsWithTheDigitsOfMpmath) {
  Budget budget(1'000'000'000);
  Algebra algebra(budget);
  const auto number = [&](int64_t n) { return algebra.number(Rational(n)); };
  expect_digits(algebra, algebra.pi(), "314159265358979323846264338327950288419716939937510");
  expect_digits(algebra, algebra.euler(), "271828182845904523536028747135266249775724709369995");
  expect_digits(algebra, algebra.root(number(2), 2), "141421356237309504880168872420969807856967187537694");
  expect_digits(algebra, algebra.logarithm(number(10)), "230258509299404568401799145468436420760110148862877");
  expect_digits(algebra, algebra.sine(number(1)), "84147098480789650665250232163029899962256306079837");
  expect_digits(algebra, algebra.inverse_trigonometric("atan", number(2)),
                "110714871779409050301706546017853704007004764540143");
  expect_digits(algebra, algebra.root(number(10), 5), "158489319246111348520210137339150701326944213382503");
}

TEST(MathAlgebra, ProvesThatNestedRootsVanish) {
  Budget budget(1'000'000'000);
  Algebra algebra(budget);
  const auto root = [&](int64_t n) { return algebra.root(algebra.number(Rational(n)), 2); };
  // sqrt(5 + 2 sqrt 6) = sqrt 2 + sqrt 3 (by squaring)
  const Form nested = algebra.root(algebra.add(algebra.number(Rational(5)), algebra.scale(root(6), Rational(2))), 2);
  EXPECT_TRUE(algebra.equal(nested, algebra.add(root(2), root(3))));
  EXPECT_FALSE(algebra.equal(nested, algebra.add(root(2), root(5))));
  // 6.47890... against 6.47870...
  EXPECT_EQ(algebra.sign(algebra.subtract(algebra.add(root(10), root(11)), algebra.add(root(5), root(18)))), 1);
}

}  // namespace
}  // namespace keel::math
