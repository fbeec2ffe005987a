#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "keel/core/philox.h"
#include "keel/ops/sampler.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

Tensor noise_of(int64_t vocab, uint64_t seed, const Tensor& ids, const Tensor& positions) {
  return with_logit_noise(at::zeros({ids.size(0), vocab}), 1, seed, ids, positions);
}

TEST(LogitNoise, IsNormalAlongEveryPartOfTheKey) {
  const int64_t count = 200000;
  const Tensor many = at::arange(count, at::kLong), one = at::full_like(many, 3);
  for (const Tensor& noise : {noise_of(4, 11, many, one), noise_of(4, 11, one, many),
                              noise_of(count, 11, one.narrow(0, 0, 4), many.narrow(0, 0, 4)).t()}) {
    const Tensor x = noise.to(at::kDouble);
    const double n = static_cast<double>(x.numel());
    // Moments of N(0, 1) are 0, 1, 0, 3; the variances of their estimates are 1/n, 2/n, 15/n, 96/n.
    EXPECT_NEAR(x.mean().item<double>(), 0, 5 * std::sqrt(1 / n));
    EXPECT_NEAR(x.pow(2).mean().item<double>(), 1, 5 * std::sqrt(2 / n));
    EXPECT_NEAR(x.pow(3).mean().item<double>(), 0, 5 * std::sqrt(15 / n));
    EXPECT_NEAR(x.pow(4).mean().item<double>(), 3, 5 * std::sqrt(96 / n));
    // Fractions beyond 2 and beyond 3.5: erfc(2 / sqrt 2), erfc(3.5 / sqrt 2).
    EXPECT_NEAR(x.abs().gt(2).to(at::kDouble).mean().item<double>(), 0.0455003, 5 * std::sqrt(0.0455 / n));
    EXPECT_NEAR(x.abs().gt(3.5).to(at::kDouble).mean().item<double>(), 4.6526e-4, 5 * std::sqrt(4.65e-4 / n));
    // Adjacent values, in either direction, are uncorrelated, and so are their squares.
    for (const Tensor& y : {x, x.pow(2) - 1}) {
      const double spread = y.pow(2).mean().item<double>();
      for (int64_t shift = 1; shift < 4; ++shift)
        EXPECT_NEAR((y.select(1, 0) * y.select(1, shift)).mean().item<double>() / spread, 0, 5 * std::sqrt(4 / n));
      EXPECT_NEAR((y.narrow(0, 0, count - 1) * y.narrow(0, 1, count - 1)).mean().item<double>() / spread, 0,
                  5 * std::sqrt(1 / n));
    }
  }
}

TEST(LogitNoise, IsTheBoxMullerTransformOfTheWords) {
  const Tensor noise = noise_of(7, 9, int64_tensor({123456789012345}), int64_tensor({17}))[0];
  for (uint32_t token = 0; token < 7; ++token) {
    const PhiloxBlock words = random_block(9, Stream::kLogitNoise, 123456789012345u, 17, token / 4);
    const uint32_t pair = token % 4 / 2 * 2;
    const double radius = std::sqrt(-2 * std::log((words.word[pair] + 0.5) / 4294967296.0));
    const double angle = 2 * M_PI * words.word[pair + 1] / 4294967296.0;
    EXPECT_NEAR(noise[token].item<double>(), radius * (token % 2 == 0 ? std::cos(angle) : std::sin(angle)), 5e-6);
  }
}

TEST(LogitNoise, DependsOnTheKeyAndNotOnTheRowIndex) {
  const int64_t rows = 50, high = int64_t{1} << 32;
  const Tensor ids = at::arange(rows, at::kLong) * 1000003, positions = at::arange(rows, at::kLong) % 5;
  const Tensor noise = noise_of(9, 42, ids, positions), order = at::randperm(rows, at::kLong);
  EXPECT_TRUE(noise_of(9, 42, ids.index_select(0, order), positions.index_select(0, order))
                  .equal(noise.index_select(0, order)));
  EXPECT_TRUE(noise_of(33, 42, ids, positions).narrow(1, 0, 9).equal(noise)) << "with a larger vocabulary";
  for (const Tensor& other : {noise_of(9, 43, ids, positions), noise_of(9, 42 + (uint64_t{1} << 32), ids, positions),
                              noise_of(9, 42, ids + 1, positions), noise_of(9, 42, ids + high, positions),
                              noise_of(9, 42, ids, positions + 5)})
    EXPECT_LT(other.eq(noise).to(at::kDouble).mean().item<double>(), 0.01);
}

TEST(LogitNoise, IsScaledByItsDeviationAndNotAddedToMaskedTokens) {
  const Tensor ids = int64_tensor({1, 2}), logits = random_normal({2, 6}, 1);
  logits[1][3] = -std::numeric_limits<float>::infinity();
  const Tensor before = logits.clone(), noise = noise_of(6, 5, ids, ids);
  const Tensor noisy = with_logit_noise(logits, 0.25, 5, ids, ids);
  EXPECT_TRUE(logits.equal(before));
  EXPECT_TRUE(noisy.equal(logits + 0.25 * noise));
  EXPECT_EQ(noisy[1][3].item<float>(), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(with_logit_noise(logits, 0, 5, ids, ids).is_same(logits));
  EXPECT_EQ(with_logit_noise(at::zeros({0, 6}), 1, 5, ids.narrow(0, 0, 0), ids.narrow(0, 0, 0)).size(0), 0);
}

}  // namespace
}  // namespace keel
