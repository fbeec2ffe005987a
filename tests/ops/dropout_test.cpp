#include "keel/ops/dropout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "keel/core/philox.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

constexpr int64_t kTokenRows = 400, kTokenWidth = 103;  // columns are not a multiple of four

/// Each row is a different token.
Dropout dropout_of(double probability) {
  const Tensor rows = at::arange(kTokenRows, at::kLong);
  return {probability, /*seed=*/17, /*update=*/5, /*layer=*/3, rows.div(8, "floor"), rows % 8};
}

Tensor dropout_factors(const Dropout& dropout) { return apply_dropout(at::ones({kTokenRows, kTokenWidth}), dropout); }

TEST(Dropout, DropsWithItsProbabilityAndScalesTheRest) {
  for (const double probability : {0.05, 0.5, 0.9}) {
    const Tensor y = dropout_factors(dropout_of(probability));
    const double n = static_cast<double>(y.numel()), sigma = std::sqrt(probability * (1 - probability) / n);
    EXPECT_NEAR(y.eq(0).to(at::kDouble).mean().item<double>(), probability, 5 * sigma);
    EXPECT_TRUE(y.eq(0).logical_or(y.eq(static_cast<float>(1 / (1 - probability)))).all().item<bool>());
    EXPECT_NEAR(y.to(at::kDouble).mean().item<double>(), 1, 5 * sigma / (1 - probability));  // unbiased
    // Fractions per row and per column vary like those of independent samples.
    EXPECT_NEAR(y.eq(0).to(at::kDouble).mean(1).var().item<double>() / (probability * (1 - probability) / kTokenWidth),
                1, 0.4);
    EXPECT_NEAR(y.eq(0).to(at::kDouble).mean(0).var().item<double>() / (probability * (1 - probability) / kTokenRows),
                1, 0.8);
  }
}

// Reference: a column is dropped if its word is below probability * 2^32.
TEST(Dropout, IsAPureFunctionOfSeedUpdateLayerTokenAndColumn) {
  const Dropout dropout = dropout_of(0.25);
  const Tensor y = dropout_factors(dropout);
  for (int64_t row = 0; row < kTokenRows; row += 7)
    for (int64_t column = 0; column < kTokenWidth; ++column) {
      const uint64_t id = (uint64_t{5} << 37) | (uint64_t{3} << 25) | static_cast<uint64_t>(row / 8);
      const PhiloxBlock block =
          philox({{static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32), static_cast<uint32_t>(row % 8),
                   (9u << 24) | static_cast<uint32_t>(column / 4)}},
                 17, 0);
      EXPECT_EQ(y[row][column].item<float>() == 0, block.word[column % 4] < 0x40000000u) << row << " " << column;
    }
  const Tensor x = random_normal({kTokenRows, kTokenWidth}, 1), order = at::randperm(kTokenRows, at::kLong);
  Dropout shuffled = dropout;
  shuffled.sequences = dropout.sequences.index_select(0, order);
  shuffled.positions = dropout.positions.index_select(0, order);
  EXPECT_TRUE(
      apply_dropout(x.index_select(0, order), shuffled).equal(apply_dropout(x, dropout).index_select(0, order)));
}

TEST(Dropout, NoiseDependsOnEveryPartOfTheKey) {
  const Dropout dropout = dropout_of(0.5);
  std::vector<Dropout> others(5, dropout);
  others[0].seed += 1;
  others[1].update += 1;
  others[2].linear_layer += 1;
  others[3].sequences = dropout.sequences + kTokenRows;
  others[4].positions = dropout.positions + 8;
  const Tensor kept = dropout_factors(dropout).ne(0);
  for (size_t i = 0; i < others.size(); ++i) {
    const double agree = kept.eq(dropout_factors(others[i]).ne(0)).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(agree, 0.5, 5 * std::sqrt(0.25 / (kTokenRows * kTokenWidth))) << i;
  }
}

TEST(Dropout, GradientEqualsFiniteDifferences) {
  const Dropout dropout = dropout_of(0.3);
  const Tensor x = random_normal({kTokenRows, kTokenWidth}, 2).requires_grad_(),
               weight = random_normal({kTokenRows, kTokenWidth}, 3),
               direction = random_normal({kTokenRows, kTokenWidth}, 4);
  const auto loss = [&](const Tensor& at_x) {
    return (apply_dropout(at_x, dropout) * weight).sum(at::kDouble).item<double>();
  };
  (apply_dropout(x, dropout) * weight).sum().backward();
  const Tensor there = x.detach();
  const double slope = (loss(there + direction * 0.5) - loss(there - direction * 0.5));
  EXPECT_NEAR((x.grad() * direction).sum(at::kDouble).item<double>() / slope, 1, 1e-5);
  EXPECT_TRUE(x.grad().equal(dropout_factors(dropout) * weight));
}

TEST(Dropout, LowPrecisionDropsTheSameElements) {
  const Dropout dropout = dropout_of(0.1);
  const Tensor x = random_normal({kTokenRows, kTokenWidth}, 5);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
    EXPECT_TRUE(
        apply_dropout(x.to(type), dropout).equal((x.to(type).to(at::kFloat) * dropout_factors(dropout)).to(type)));
}

}  // namespace
}  // namespace keel
