#include "keel/core/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "keel/core/random.h"

namespace keel {
namespace {

using Words = std::array<uint32_t, 4>;

Words words(const PhiloxBlock& block) { return {block.word[0], block.word[1], block.word[2], block.word[3]}; }

// The known answers of the Philox authors in Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, MatchesThePublishedTestVectors) {
  EXPECT_EQ(words(philox({{0, 0, 0, 0}}, 0, 0)), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(philox({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u)), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0)),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The third published counter and key, split into the fields: 0x03707344 is stream 3, block 0x707344.
TEST(Philox, RandomBlockMapsEachFieldToTheCounter) {
  const PhiloxBlock block =
      random_block(0x299f31d0a4093822ull, Stream::kTaskProblems, 0x85a308d3243f6a88ull, 0x13198a2e, 0x707344);
  EXPECT_EQ(words(block), (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformIsStrictlyBetweenZeroAndOneForExtremeWords) {
  for (uint32_t low = 0; low < 1024; ++low) {
    for (const uint32_t word : {low, 0x7fffffffu - low, 0x80000000u + low, 0xffffffffu - low}) {
      ASSERT_GT(uniform(word), 0.0f) << word;
      ASSERT_LT(uniform(word), 1.0f) << word;
    }
  }
}

TEST(Philox, UniformIsTheMiddleOfEqualIntervalsRoundedToFloat) {
  for (const uint32_t word : {0u, 1u, 2u, 77u, 0x100u, 0x7fffffu, 0x1000001u, 0x12345678u, 0x80000000u, 0xfffffeffu}) {
    const double middle = (static_cast<double>(word) + 0.5) / 4294967296.0;
    EXPECT_NEAR(uniform(word) / middle, 1, 1e-7) << word;
  }
  EXPECT_EQ(uniform(0), 1.0 / 8589934592.0);             // 2^-33
  EXPECT_EQ(uniform(~0u), 1.0 - 1.0 / 16777216.0);       // the largest float below 1
  EXPECT_EQ(uniform(0x7fffff), 8388607.5 / 4294967296);  // exact
}

TEST(RandomSequence, ReturnsTheWordsOfConsecutiveBlocks) {
  RandomSequence draws(11, Stream::kShuffle, 5);
  for (uint32_t position = 0; position < 3; ++position) {
    const PhiloxBlock block = random_block(11, Stream::kShuffle, 5, position, 0);
    for (const uint32_t word : words(block)) EXPECT_EQ(draws.word(), word);
  }
}

TEST(RandomSequence, UniformIsStrictlyBetweenZeroAndOneWithMeanOneHalf) {
  RandomSequence draws(3, Stream::kShuffle, 0);
  constexpr int kCount = 100000;
  double sum = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = draws.uniform();
    ASSERT_GT(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 4 * std::sqrt(1.0 / 12 / kCount));
}

double chi_square(const std::vector<int>& counts) {
  double total = 0, statistic = 0;
  for (const int count : counts) total += count;
  const double expected = total / static_cast<double>(counts.size());
  for (const int count : counts) statistic += (count - expected) * (count - expected) / expected;
  return statistic;
}

// Critical values of the chi-square distribution at p = 0.001, from printed tables.
TEST(RandomSequence, BelowIsUniform) {
  struct Case {
    uint32_t n;
    double critical;  // n - 1 degrees of freedom
  };
  for (const auto& [n, critical] : {Case{2, 10.828}, Case{6, 20.515}, Case{10, 27.877}, Case{101, 149.449}}) {
    RandomSequence draws(1, Stream::kShuffle, n);
    std::vector<int> counts(n);
    for (int i = 0; i < 100000; ++i) ++counts.at(draws.below(n));
    EXPECT_LT(chi_square(counts), critical) << n;
  }
}

// 3 * 2^30 does not divide 2^32: without rejection, multiples of 3 would be twice as frequent as others.
TEST(RandomSequence, BelowIsUnbiasedWhereScalingAWordWouldBeMostBiased) {
  RandomSequence draws(7, Stream::kShuffle, 0);
  std::vector<int> counts(3);
  for (int i = 0; i < 100000; ++i) ++counts[draws.below(3u << 30) % 3];
  EXPECT_LT(chi_square(counts), 13.816);
}

TEST(RandomSequence, BelowOneIsAlwaysZero) {
  RandomSequence draws(7, Stream::kShuffle, 0);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(draws.below(1), 0u);
}

}  // namespace
}  // namespace keel
