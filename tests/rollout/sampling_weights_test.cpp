#include "keel/rollout/sampling_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/reference_model.h"

namespace keel {
namespace {

/// Every non-negative number of the format: 4 bits of exponent with bias 7, 3 of mantissa, the last code is NaN.
std::vector<double> e4m3_values() {
  std::vector<double> values;
  for (int code = 0; code < 127; ++code) {
    const int exponent = code >> 3, mantissa = code & 7;
    values.push_back(exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10));
  }
  return values;
}

bool is_linear(const std::string& name) { return name.find("_proj.") != std::string::npos; }

class SamplingWeights : public testing::Test {
 protected:
  SamplingWeights() {
    const at::NoGradGuard no_grad;
    for (const NamedTensor& parameter : model_.parameters()) {
      if (!is_linear(parameter.name)) continue;
      parameter.value[1].mul_(1e-4);  // rows of very different size: one scale for all would lose the small ones
      parameter.value[0].mul_(30);
      parameter.value[1][0].mul_(1e-3);  // beside its row's largest this one is subnormal in the format
    }
    model_.parameters()[2].value[3].zero_();
  }
  CausalLm model_ = tiny_model(tiny_config(3, 1, false));
};

TEST_F(SamplingWeights, RoundedToFp8AreTheNearestRepresentableMultiplesOfEachRowsScale) {
  EXPECT_EQ(e4m3_values().back(), 448);
  const auto exact = model_.parameters(), rounded = sampling_weights(model_, "fp8").parameters();
  int matrices = 0;
  for (size_t p = 0; p < exact.size(); ++p) {
    if (!is_linear(exact[p].name)) continue;
    ++matrices;
    for (int64_t row = 0; row < exact[p].value.size(0); ++row) {
      const std::vector<double> before = to_vector(exact[p].value[row]), after = to_vector(rounded[p].value[row]);
      double largest = 0;
      for (const double w : before) largest = std::max(largest, std::abs(w));
      const double scale = largest > 0 ? largest / 448 : 1;
      for (size_t i = 0; i < before.size(); ++i) {
        double nearest = 1e9, representable = 1e9;
        for (const double value : e4m3_values()) {
          nearest = std::min(nearest, std::abs(std::abs(before[i]) / scale - value));
          representable = std::min(representable, std::abs(std::abs(after[i]) / scale - value));
        }
        SCOPED_TRACE(exact[p].name + " row " + std::to_string(row) + " column " + std::to_string(i));
        EXPECT_LT(representable, 1e-6 * std::abs(after[i]) / scale + 1e-9);
        EXPECT_NEAR(std::abs(after[i] - before[i]) / scale, nearest, 1e-6 * std::abs(before[i]) / scale + 1e-9);
        // Three bits of mantissa: half a step is 1/16 of the number, or 2^-10 of the scale below the normal range.
        EXPECT_LE(std::abs(after[i] - before[i]),
                  1.0001 * std::max(std::abs(before[i]) / 16, scale * std::ldexp(1, -10)));
        EXPECT_GE(after[i] * before[i], 0) << "the sign turned";
      }
    }
  }
  EXPECT_EQ(matrices, 14);
}

TEST_F(SamplingWeights, RoundedToFp8DifferFromTheModelsOwnWhichStayAsTheyAre) {
  const Tensor query = model_.parameters()[2].value;
  const Tensor before = query.detach().clone();
  const Tensor rounded = sampling_weights(model_, "fp8").parameters()[2].value;
  EXPECT_TRUE(query.equal(before));
  EXPECT_FALSE(rounded.requires_grad());
  EXPECT_GT(relative_difference(rounded, query), 1e-3);
  EXPECT_TRUE(rounded[3].eq(0).all().item<bool>()) << "a row of zeros has no scale";
}

TEST_F(SamplingWeights, RoundedToFp8LeaveEmbeddingNormsAndHeadAlone) {
  const auto exact = model_.parameters(), rounded = sampling_weights(model_, "fp8").parameters();
  int untouched = 0;
  for (size_t p = 0; p < exact.size(); ++p) {
    if (is_linear(exact[p].name)) continue;
    EXPECT_TRUE(rounded[p].value.is_same(exact[p].value)) << exact[p].name;
    ++untouched;
  }
  EXPECT_EQ(untouched, 7);  // embedding, head, final norm, two norms in each of two blocks
}

TEST_F(SamplingWeights, ExactAreTheModelsOwnAndUnknownWordsAreRefused) {
  const auto exact = model_.parameters(), same = sampling_weights(model_, "exact").parameters();
  for (size_t p = 0; p < exact.size(); ++p) EXPECT_TRUE(same[p].value.is_same(exact[p].value)) << exact[p].name;
  EXPECT_NE(error_of(2, [&] { sampling_weights(model_, "int8"); }).find("\"int8\""), std::string::npos);
}

}  // namespace
}  // namespace keel
