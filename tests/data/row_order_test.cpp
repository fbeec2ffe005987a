#include "keel/data/row_order.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace keel {
namespace {

std::vector<uint64_t> order(uint64_t seed, uint64_t pass, uint64_t rows) {
  std::vector<uint64_t> result;
  for (uint64_t i = 0; i < rows; ++i) result.push_back(shuffled_row(seed, pass, i, rows));
  return result;
}

TEST(RowOrder, ReturnsEveryRowOnceForAnyNumberOfRows) {
  for (const uint64_t rows : {1, 2, 3, 5, 8, 17, 64, 100, 255, 257, 1000, 4099}) {
    const std::vector<uint64_t> result = order(7, 3, rows);
    const std::set<uint64_t> distinct(result.begin(), result.end());
    EXPECT_EQ(distinct.size(), rows);
    EXPECT_LT(*distinct.rbegin(), rows);
  }
}

TEST(RowOrder, DependsOnTheEpochAndTheSeed) {
  EXPECT_EQ(order(1, 0, 100), order(1, 0, 100));
  EXPECT_NE(order(1, 0, 100), order(1, 1, 100));
  EXPECT_NE(order(1, 0, 100), order(2, 0, 100));
}

TEST(RowOrder, IsUniformOverTheTwentyFourOrdersOfFourRows) {
  constexpr int kPasses = 24000;
  std::map<std::vector<uint64_t>, int> counts;
  for (int pass = 0; pass < kPasses; ++pass) ++counts[order(5, static_cast<uint64_t>(pass), 4)];
  ASSERT_EQ(counts.size(), 24u);
  double chi_square = 0;
  for (const auto& [_, count] : counts) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 49.7);  // 23 degrees of freedom, p = 0.001
}

TEST(RowOrder, SpreadsConsecutiveRowsOverTheWholeFile) {
  // The mean distance of two random rows among N is N / 3.
  constexpr uint64_t kRows = uint64_t{1} << 40;
  double distance = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    const uint64_t a = shuffled_row(1, 0, i, kRows), b = shuffled_row(1, 0, i + 1, kRows);
    distance += static_cast<double>(a > b ? a - b : b - a) / 3000;
  }
  EXPECT_NEAR(distance / static_cast<double>(kRows), 1.0 / 3, 0.03);  // 7 standard errors
}

}  // namespace
}  // namespace keel
