#include "keel/rollout/rounding.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "tests/support/tensors.h"

namespace keel {
namespace {

/// Table of the non-negative values of a format, in order of their codes: a value's index is even if its last bit is 0.
struct Format {
  std::vector<double> numbers;

  Format(int mantissa_bits, int bias, int codes) {
    for (int code = 0; code < codes; ++code) {
      const int exponent = code >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
      numbers.push_back(exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                      : std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits));
    }
  }

  double nearest(double x) const {
    const double size = std::min(std::abs(x), numbers.back());
    const auto upper = std::lower_bound(numbers.begin(), numbers.end(), size);
    double result = *upper;
    if (result != size) {
      const double below = size - *(upper - 1), above = *upper - size;
      const bool upper_is_even = (upper - numbers.begin()) % 2 == 0;
      if (below < above || (below == above && !upper_is_even)) result = *(upper - 1);
    }
    return std::copysign(result, x);
  }
};

const Format& e4m3() {
  static const Format kTable(3, 7, 127);  // the last code is NaN
  return kTable;
}
const Format& e5m2() {
  static const Format kTable(2, 15, 31 << 2);  // infinity and NaN have the last exponent
  return kTable;
}
const Format& e2m1() {
  static const Format kTable(1, 1, 8);
  return kTable;
}

/// Every value of the format, and every midpoint with its adjacent floats; of both signs.
std::vector<float> hard_numbers(const Format& format) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> result;
  for (size_t i = 0; i < format.numbers.size(); ++i) {
    result.push_back(static_cast<float>(format.numbers[i]));
    if (i + 1 == format.numbers.size()) break;
    const float middle = static_cast<float>((format.numbers[i] + format.numbers[i + 1]) / 2);
    result.insert(result.end(), {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, kInfinity)});
  }
  const size_t count = result.size();
  for (size_t i = 0; i < count; ++i) result.push_back(-result[i]);
  return result;
}

Tensor floats(const std::vector<float>& numbers) { return at::tensor(numbers, at::kFloat); }

void expect_nearest(const Format& format, const std::vector<float>& numbers, at::ScalarType type) {
  const Tensor rounded = round_to_type(floats(numbers), type);
  ASSERT_EQ(rounded.scalar_type(), at::kFloat);
  for (size_t i = 0; i < numbers.size(); ++i)
    ASSERT_EQ(rounded[static_cast<int64_t>(i)].item<double>(), format.nearest(numbers[i])) << numbers[i];
}

TEST(RoundToType, EightBitTypesRoundToNearestAndSaturate) {
  EXPECT_EQ(e4m3().numbers.back(), 448);
  EXPECT_EQ(e5m2().numbers.back(), 57344);
  for (const auto& [format, type] : {std::pair(&e4m3(), at::kFloat8_e4m3fn), std::pair(&e5m2(), at::kFloat8_e5m2)}) {
    std::vector<float> numbers = hard_numbers(*format);
    EXPECT_GT(numbers.size(), 980u);
    numbers.insert(numbers.end(), {460, 470, 1000, 60000, 70000, 3e38f, -500, -61440, -3e38f, 1e-30f, 1e-45f});
    expect_nearest(*format, numbers, type);
    EXPECT_TRUE(round_to_type(floats({NAN}), type).isnan().all().item<bool>());
  }
}

TEST(RoundToType, SixteenBitTypesRoundToNearest) {
  const Format bf16(7, 127, 255 << 7), fp16(10, 15, 31 << 10);
  EXPECT_EQ(fp16.numbers.back(), 65504);
  for (const auto& [format, type] : {std::pair(&bf16, at::kBFloat16), std::pair(&fp16, at::kHalf)}) {
    const std::vector<float> numbers = hard_numbers(*format);
    const std::vector<double> rounded = to_vector(round_to_type(floats(numbers), type));
    for (size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(rounded[i], format->nearest(numbers[i])) << numbers[i];
  }
  EXPECT_TRUE(round_to_type(floats({70000}), at::kHalf).isinf().all().item<bool>());
}

/// Rows of every kind: normal ones, with an outlier, zeros, tiny and huge values.
Tensor hard_rows(int64_t columns) {
  Tensor rows = random_normal({9, columns}, 3);
  rows[1][columns / 2] = 1e4;
  rows[2].zero_();
  rows[3].mul_(1e-20);
  rows[4].mul_(1e-41);  // subnormal
  rows[5].mul_(1e30);
  rows[6] = 0.3;
  rows[7] = -rows[7].abs();
  rows[8].zero_()[0] = 1e-45;  // the smallest positive float
  return rows;
}

using Row = std::vector<float>;

Row row_of(const Tensor& x) { return {x.const_data_ptr<float>(), x.const_data_ptr<float>() + x.numel()}; }

float largest_magnitude(const Row& row) {
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::abs(x));
  return largest;
}

/// Reference for one row in float32: divides by the scale, rounds, and multiplies by the scale.
Row scaled(const Row& row, float largest, const std::function<double(double)>& nearest) {
  const float scale = std::max(largest_magnitude(row) / largest, std::numeric_limits<float>::min());
  Row result;
  for (const float x : row) result.push_back(static_cast<float>(nearest(x / scale)) * scale);
  return result;
}

TEST(RoundRowsToFloat8, EqualsTheReferenceBitwise) {
  for (const int64_t columns : {1, 16, 37}) {
    const Tensor rows = hard_rows(columns);
    const Tensor small = round_rows_to_float8(rows, at::kFloat8_e4m3fn),
                 wide = round_rows_to_float8(rows, at::kFloat8_e5m2);
    for (int64_t i = 0; i < rows.size(0); ++i) {
      const Row row = row_of(rows[i]);
      EXPECT_EQ(row_of(small[i]), scaled(row, 448, [](double x) { return e4m3().nearest(x); })) << columns << " " << i;
      EXPECT_EQ(row_of(wide[i]), scaled(row, 57344, [](double x) { return e5m2().nearest(x); })) << columns << " " << i;
    }
  }
}

TEST(RoundRowsToFloat8, EqualsAnExampleByHand) {
  // The scale is 1. From 16 on e4m3 has steps of 2: 17 rounds to the even 16, and 19 to 20. From 256 to 448 it has
  // steps of 32. Its smallest value is 2^-9, and half of that rounds to 0.
  const Tensor row = floats({448, 17, -19, 21.5, 300, -0.001953125, 0.0009765625, 0.00146484375}).unsqueeze(0);
  EXPECT_EQ(to_vector(round_rows_to_float8(row, at::kFloat8_e4m3fn)),
            (std::vector<double>{448, 16, -20, 22, 288, -0.001953125, 0, 0.001953125}));
}

TEST(RoundToIntegers, EqualsTheReferenceBitwise) {
  for (const auto& [bits, largest] : {std::pair(8, 127.0f), std::pair(4, 7.0f), std::pair(3, 3.0f)}) {
    const Tensor rows = hard_rows(37), rounded = round_to_integers(rows, bits);
    for (int64_t i = 0; i < rows.size(0); ++i)
      EXPECT_EQ(row_of(rounded[i]), scaled(row_of(rows[i]), largest, [](double x) { return std::nearbyint(x); }))
          << bits << " bits, row " << i;
  }
}

TEST(RoundToIntegers, EqualsAnExampleByHand) {
  const Tensor rows = floats({-7, 3.5, 2.5, -0.5, 1.51, 0, 0, 0, 0, 0}).view({2, 5});  // the first row's scale is 1
  EXPECT_EQ(to_vector(round_to_integers(rows, 4)), (std::vector<double>{-7, 4, 2, 0, 2, 0, 0, 0, 0, 0}));
  // With 3 bits the scale is 7/3: -3, 1.5 to 2, 1.07 to 1, -0.2 to 0, 0.65 to 1.
  const std::vector<double> three = to_vector(round_to_integers(rows[0], 3));
  const std::vector<double> want{-7, 14 / 3.0, 7 / 3.0, 0, 7 / 3.0};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(three[i], want[i], 1e-6);
  EXPECT_EQ(to_vector(round_to_integers(floats({127, 0.5, 1.5, 63.4}), 8)), (std::vector<double>{127, 0, 2, 63}));
}

TEST(RoundToNvfp4, HasExactlyTheValuesOfE2m1) {
  // 2688 = 448 x 6 makes the tensor scale 1, and so the scale of a block whose largest value is 6.
  std::vector<float> numbers = hard_numbers(e2m1());
  while (numbers.size() % 15 != 0) numbers.push_back(0.1f);
  Tensor rows = at::zeros({static_cast<int64_t>(numbers.size()) / 15, 32});
  rows.select(1, 0).fill_(2688);
  rows.select(1, 16).fill_(6);
  rows.narrow(1, 17, 15).copy_(floats(numbers).view({-1, 15}));
  const std::vector<double> rounded = to_vector(round_to_nvfp4(rows).narrow(1, 17, 15));
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(rounded[i], e2m1().nearest(numbers[i])) << numbers[i];
  EXPECT_EQ(e2m1().numbers, (std::vector<double>{0, 0.5, 1, 1.5, 2, 3, 4, 6}));
}

TEST(RoundToNvfp4, EqualsAnExampleByHand) {
  // Three blocks, the last of a single element. The tensor scale is 1. The block scales are 448; 1, the e4m3 nearest to
  // 6.3 / 6 = 1.05, so that 6.3 becomes 6; and 0, the e4m3 nearest to 0.001 / 6.
  Tensor row = at::zeros({1, 33});
  row[0][0] = 2688, row[0][1] = -2240, row[0][2] = 100;  // 6; -5, a midpoint that rounds to -4; 0.22
  row[0][16] = 6.3, row[0][17] = 0.8, row[0][18] = -2.6;
  row[0][32] = 0.001;
  const std::vector<double> rounded = to_vector(round_to_nvfp4(row));
  ASSERT_EQ(rounded.size(), 33u);
  for (const auto& [place, want] :
       std::map<int, double>{{0, 2688}, {1, -1792}, {2, 0}, {3, 0}, {16, 6}, {17, 1}, {18, -3}, {19, 0}, {32, 0}})
    EXPECT_EQ(rounded[place], want) << place;
}

TEST(RoundToNvfp4, EqualsTheReferencePerBlockBitwise) {
  constexpr float kLeast = std::numeric_limits<float>::min();
  for (const int64_t columns : {1, 16, 37, 48}) {
    Tensor rows = hard_rows(columns);
    rows[1][columns / 2] = 40;  // Otherwise this outlier would make the other blocks 0.
    rows[5].mul_(1e-30);
    const Tensor rounded = round_to_nvfp4(rows);
    const float tensor_scale = largest_magnitude(row_of(rows.contiguous())) / 2688;
    int left = 0;
    for (int64_t i = 0; i < rows.size(0); ++i)
      for (int64_t begin = 0; begin < columns; begin += 16) {
        const int64_t count = std::min<int64_t>(16, columns - begin);
        const Row block = row_of(rows[i].narrow(0, begin, count));
        const float scale =
            static_cast<float>(e4m3().nearest(largest_magnitude(block) / 6 / tensor_scale)) * tensor_scale;
        Row want;
        for (const float x : block)
          want.push_back(static_cast<float>(e2m1().nearest(x / std::max(scale, kLeast))) * scale);
        EXPECT_EQ(row_of(rounded[i].narrow(0, begin, count)), want) << columns << " columns, row " << i;
        left += largest_magnitude(want) > 0;
      }
    EXPECT_GT(left, 4);
  }
  EXPECT_TRUE(round_to_nvfp4(at::zeros({2, 20})).eq(0).all().item<bool>());
}

TEST(Rounding, KeepsTheDtypeAndDoesNotChangeTheInput) {
  const Tensor x = random_normal({3, 20}, 4).requires_grad_(), before = x.detach().clone();
  for (const auto& round : {+[](const Tensor& t) { return round_to_type(t, at::kBFloat16); },
                            +[](const Tensor& t) { return round_rows_to_float8(t, at::kFloat8_e4m3fn); },
                            +[](const Tensor& t) { return round_to_integers(t, 4); }, +round_to_nvfp4}) {
    EXPECT_FALSE(round(x).requires_grad());
    EXPECT_FALSE(round(x).equal(before));
    EXPECT_TRUE(x.detach().equal(before));
    EXPECT_EQ(round(x.detach().to(at::kBFloat16)).scalar_type(), at::kBFloat16);
    EXPECT_TRUE(round(at::full({2, 16}, NAN)).isnan().all().item<bool>());
  }
}

}  // namespace
}  // namespace keel
