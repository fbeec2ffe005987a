#include "keel/rollout/sampling_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "keel/rollout/rounding.h"
#include "tests/support/errors.h"
#include "tests/support/reference_model.h"

namespace keel {
namespace {

/// The non-negative values of e4m3: 4 exponent bits with bias 7, 3 mantissa bits; the last code is NaN.
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
    for (const NamedTensor& parameter : model_.parameters()) {
      if (!is_linear(parameter.name)) continue;
      parameter.value[1].mul_(1e-4);  // rows of different magnitude: one scale for all would round small ones to 0
      parameter.value[0].mul_(30);
      parameter.value[1][0].mul_(1e-3);  // Relative to its row's largest value this one is subnormal in the format.
    }
    model_.parameters()[2].value[3].zero_();
  }
  /// The weights of a sampler of this precision.
  std::vector<NamedTensor> parameters_in(const std::string& precision) const {
    return model_.merged({}, sampling_precision(precision).rounding.weights).parameters();
  }

  ModelWeights model_ = tiny_model(tiny_config(3, 1, false));
};

TEST_F(SamplingWeights, Fp8RoundsToTheNearestMultipleOfEachRowsScale) {
  EXPECT_EQ(e4m3_values().back(), 448);
  const auto exact = model_.parameters(), rounded = parameters_in("fp8");
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
        // With three mantissa bits half a step is 1/16 of the value, or 2^-10 of the scale in the subnormal range.
        EXPECT_LE(std::abs(after[i] - before[i]),
                  1.0001 * std::max(std::abs(before[i]) / 16, scale * std::ldexp(1, -10)));
        EXPECT_GE(after[i] * before[i], 0) << "the sign changed";
      }
    }
  }
  EXPECT_EQ(matrices, 14);
}

TEST_F(SamplingWeights, Fp8WeightsAreACopy) {
  const Tensor query = model_.parameters()[2].value;
  const Tensor before = query.clone();
  const Tensor rounded = parameters_in("fp8")[2].value;
  EXPECT_TRUE(query.equal(before));
  EXPECT_FALSE(rounded.requires_grad());
  EXPECT_GT(relative_difference(rounded, query), 1e-3);
  EXPECT_TRUE(rounded[3].eq(0).all().item<bool>()) << "a row of zeros";
}

TEST_F(SamplingWeights, Fp8DoesNotRoundEmbeddingNormsAndHead) {
  const auto exact = model_.parameters(), rounded = parameters_in("fp8");
  int untouched = 0;
  for (size_t p = 0; p < exact.size(); ++p) {
    if (is_linear(exact[p].name)) continue;
    EXPECT_TRUE(rounded[p].value.is_same(exact[p].value)) << exact[p].name;
    ++untouched;
  }
  EXPECT_EQ(untouched, 7);  // embedding, head, final norm, two norms in each of two blocks
}

TEST_F(SamplingWeights, EveryPrecisionRoundsWeightsToItsFormat) {
  const std::map<std::string, std::function<Tensor(const Tensor&)>> functions = {
      {"bf16", [](const Tensor& x) { return round_to_type(x, at::kBFloat16); }},
      {"fp16", [](const Tensor& x) { return round_to_type(x, at::kHalf); }},
      {"fp8", [](const Tensor& x) { return round_rows_to_float8(x, at::kFloat8_e4m3fn); }},
      {"fp8_full", [](const Tensor& x) { return round_rows_to_float8(x, at::kFloat8_e4m3fn); }},
      {"fp8_e5m2_full", [](const Tensor& x) { return round_rows_to_float8(x, at::kFloat8_e4m3fn); }},
      {"nvfp4", round_to_nvfp4},
      {"int8", [](const Tensor& x) { return round_to_integers(x, 8); }},
      {"int4", [](const Tensor& x) { return round_to_integers(x, 4); }},
      {"int3", [](const Tensor& x) { return round_to_integers(x, 3); }}};
  EXPECT_EQ(sampling_precisions().size(), functions.size() + 1);
  for (const auto& [precision, round] : functions) {
    const auto rounded = parameters_in(precision), exact = model_.parameters();
    for (size_t p = 0; p < exact.size(); ++p)
      EXPECT_TRUE(rounded[p].value.equal(is_linear(exact[p].name) ? round(exact[p].value) : exact[p].value))
          << precision << " " << exact[p].name;
  }
}

TEST_F(SamplingWeights, OnlyFullPrecisionsRoundActivationsKeysAndValues) {
  const Tensor x = random_normal({5, 12}, 7) * 3;
  for (const SamplingPrecision& precision : sampling_precisions()) {
    const Rounding& rounding = precision.rounding;
    const bool full = precision.name.ends_with("_full") || precision.name.ends_with("16");
    ASSERT_EQ(rounding.activations != nullptr, full) << precision.name;
    ASSERT_EQ(rounding.keys_and_values != nullptr, full) << precision.name;
    if (!full) continue;
    const at::ScalarType type = precision.name == "bf16"       ? at::kBFloat16
                                : precision.name == "fp16"     ? at::kHalf
                                : precision.name == "fp8_full" ? at::kFloat8_e4m3fn
                                                               : at::kFloat8_e5m2;
    const bool scales = precision.name.starts_with("fp8");
    EXPECT_TRUE(rounding.keys_and_values(x).equal(round_to_type(x, type))) << precision.name;
    EXPECT_TRUE(rounding.activations(x).equal(scales ? round_rows_to_float8(x, type) : round_to_type(x, type)))
        << precision.name;
  }
}

/// Shapes of the tensors that a network passes to a rounding function.
std::vector<std::vector<int64_t>> inputs, keys_and_values;
Tensor same(const Tensor& x) { return x.detach(); }
Tensor note_input(const Tensor& x) { return inputs.push_back(x.sizes().vec()), x; }
Tensor note_keys_and_values(const Tensor& x) { return keys_and_values.push_back(x.sizes().vec()), x; }

TEST_F(SamplingWeights, RoundsTheInputsOfAllLinearLayersAndAllKeysAndValues) {
  inputs.clear(), keys_and_values.clear();
  const ModelConfig& config = model_.config();
  const Tensor tokens = int64_tensor({1, 4, 5}), positions = int64_tensor({0, 1, 2});
  const auto values = [](int64_t, const AttentionConfig&, const Heads& heads) {
    return heads.value.repeat({1, heads.query.size(1) / heads.value.size(1), 1});
  };
  const Tensor plain = SamplingModel({model_}).forward({tokens, positions, values});
  const SamplingModel noted({model_}, {same, note_input, note_keys_and_values});
  EXPECT_TRUE(noted.forward({tokens, positions, values}).equal(plain));
  noted.logits(plain);  // the head's input is not rounded
  const int64_t hidden = config.hidden_size, wide = config.intermediate_size,
                heads = config.num_attention_heads * config.head_dim;
  std::vector<std::vector<int64_t>> want, stored;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    for (const int64_t width : {hidden, heads, hidden, wide}) want.push_back({3, width});  // one per distinct input
    for (int i = 0; i < 2; ++i) stored.push_back({3, config.num_key_value_heads, config.head_dim});
  }
  EXPECT_EQ(inputs, want);
  EXPECT_EQ(keys_and_values, stored);
}

TEST_F(SamplingWeights, ExactUsesTheModelsWeightsAndUnknownNamesAreRefused) {
  const auto exact = model_.parameters(), same = parameters_in("exact");
  for (size_t p = 0; p < exact.size(); ++p) EXPECT_TRUE(same[p].value.is_same(exact[p].value)) << exact[p].name;
  EXPECT_THAT(error_of(2, [&] { sampling_model({model_}, "int5"); }), HasSubstr("\"int5\"; known: exact, bf16"));
}

}  // namespace
}  // namespace keel
