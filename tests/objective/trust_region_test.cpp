#include "keel/objective/trust_region.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "keel/objective/aggregation.h"
#include "keel/objective/divergence.h"
#include "keel/objective/methods.h"
#include "tests/support/goldens.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

/// The region that a golden case asks for; nothing when it asks for a parameter that our regions do not have.
std::optional<TrustRegion> region_of(const std::string& method, const Json& params) {
  if (params.contains("dual") || params.contains("anchor")) return std::nullopt;
  const auto value = [&](const char* name) {
    return params.contains(name) && !params.at(name).is_null() ? params.at(name).get<double>() : kUnlimited;
  };
  if (method == "pg_is" || method == "pg_tis") return PolicyGradient{.ratio_cap = value("C")};
  if (method == "ppo_clip" || method == "dapo") return PpoClip{.low = value("low"), .high = value("high")};
  if (method == "dppo_binary_tv")
    return DppoBinaryTv{.low = value("low"), .high = value("high"), .ratio_cap = value("C")};
  if (method == "dppo_binary_kl")
    return DppoBinaryKl{.low = value("low"), .high = value("high"), .ratio_cap = value("C")};
  return std::nullopt;
}

TokenPolicy policy_of(const GoldenBatch& batch, at::ScalarType type) {
  return {batch.valid_tensor(batch.logp, type), batch.valid_tensor(batch.behavior_logp, type),
          batch.valid_tensor(batch.advantages, type)};
}

/// goldens/README.md: 1e-9 relative in double; in float32 relative to |want| + |A| max(r, 1).
double tolerance_of_g(double want, double logp, double behavior_logp, double advantage, at::ScalarType type) {
  if (type == at::kDouble) return 1e-9 * std::abs(want);
  const double ratio = std::exp(std::clamp(logp - behavior_logp, -20.0, 20.0));
  return 1e-5 * (std::abs(want) + std::abs(advantage) * std::max(ratio, 1.0));
}

void expect_case(const TrustRegion& region, const GoldenBatch& batch, const Json& expected, at::ScalarType type) {
  const TokenDecision decision = token_coefficients(region, policy_of(batch, type));
  const std::vector<double> got = to_vector(decision.coefficient), kept = to_vector(decision.keep);
  const std::vector<double> want = numbers(expected.at("g"));
  ASSERT_EQ(got.size(), batch.valid.size());
  for (size_t i = 0; i < batch.valid.size(); ++i) {
    const size_t t = batch.valid[i];
    EXPECT_NEAR(got[i], want[t],
                tolerance_of_g(want[t], batch.logp[t], batch.behavior_logp[t], batch.advantages[t], type))
        << "token " << t;
    if (!expected.contains("keep")) {
      EXPECT_EQ(kept[i], 1) << "token " << t;
    } else if (const int keep = expected.at("keep").at(t); keep != -1) {
      EXPECT_EQ(kept[i], keep) << "token " << t;
    }
  }
}

struct Family {
  const char* method;
  int checked, skipped;  // counted by hand in weights.json, so that the test cannot come to check nothing
};

class GoldenWeights : public testing::TestWithParam<Family> {};

TEST_P(GoldenWeights, AreReproducedInDoubleAndInFloat) {
  const Json weights = golden("weights.json"), batches = golden("batches.json");
  int checked = 0, skipped = 0;
  for (const Json& row : weights.at("methods")) {
    if (row.at("method") != GetParam().method) continue;
    for (const Json& one : row.at("cases")) {
      const auto region = region_of(GetParam().method, one.at("params"));
      (region ? checked : skipped) += 1;
      if (!region) continue;
      SCOPED_TRACE(one.at("batch").get<std::string>() + " " + one.at("params").dump());
      const GoldenBatch batch = golden_batch(batches, one.at("batch"));
      for (const at::ScalarType type : {at::kDouble, at::kFloat}) expect_case(*region, batch, one.at("expected"), type);
    }
  }
  EXPECT_EQ(checked, GetParam().checked);
  EXPECT_EQ(skipped, GetParam().skipped);
}

TEST_P(GoldenWeights, GiveTheScoreLossOfEveryAggregation) {
  const Json weights = golden("weights.json"), batches = golden("batches.json");
  int checked = 0;
  for (const Json& row : weights.at("methods")) {
    if (row.at("method") != GetParam().method) continue;
    for (const Json& one : row.at("cases")) {
      const auto region = region_of(GetParam().method, one.at("params"));
      if (!region) continue;
      const GoldenBatch batch = golden_batch(batches, one.at("batch"));
      const std::vector<double> g = to_vector(token_coefficients(*region, policy_of(batch, at::kDouble)).coefficient);
      const std::vector<double> logp = batch.only_valid(batch.logp);
      const std::vector<int64_t> counts = batch.valid_tokens();
      for (const auto& [aggregation, want] : one.at("expected").at("score_loss").items()) {
        const std::vector<double> weight = sequence_weights(aggregation, counts, batch.horizon);
        double loss = 0, size = 0;
        size_t i = 0;
        for (size_t s = 0; s < counts.size(); ++s) {
          for (int64_t t = 0; t < counts[s]; ++t, ++i) {
            loss -= weight[s] * g[i] * logp[i];
            size += std::abs(weight[s] * g[i] * logp[i]);
          }
        }
        EXPECT_NEAR(loss, want.get<double>(), 1e-9 * size) << one.at("batch") << " " << aggregation;
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, 4 * GetParam().checked);
}

INSTANTIATE_TEST_SUITE_P(Methods, GoldenWeights,
                         testing::Values(Family{"pg_is", 11, 0}, Family{"pg_tis", 14, 0}, Family{"ppo_clip", 12, 5},
                                         Family{"dapo", 2, 0}, Family{"dppo_binary_tv", 18, 2},
                                         Family{"dppo_binary_kl", 17, 2}),
                         [](const auto& test) { return std::string(test.param.method); });

Tensor log_of(std::vector<double> probabilities) { return at::tensor(probabilities, at::kDouble).log(); }

TEST(DppoBinaryTv, BlocksATokenThatLeavesTheRegionAndKeepsOneThatComesBack) {
  const TokenPolicy policy{log_of({0.8, 0.8, 0.2, 0.2, 0.6}), log_of({0.5, 0.5, 0.5, 0.5, 0.5}),
                           at::tensor({1.0, -1.0, -2.0, 2.0, 3.0}, at::kDouble)};
  const TokenDecision decision = token_coefficients(DppoBinaryTv{.low = 0.25, .high = 0.2, .ratio_cap = 1.5}, policy);
  const std::vector<double> g = to_vector(decision.coefficient), want{0, -1.5, 0, 0.8, 3.6};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(g[i], want[i], 1e-12) << i;
  EXPECT_EQ(to_vector(decision.keep), (std::vector<double>{0, 1, 0, 1, 1}));
  EXPECT_EQ(to_vector(decision.threshold), (std::vector<double>{0.2, 0.25, 0.25, 0.2, 0.2}));
  const std::vector<double> divergence = to_vector(decision.divergence), apart{0.3, 0.3, 0.3, 0.3, 0.1};
  for (size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(divergence[i], apart[i], 1e-12) << i;
}

TEST(DppoBinaryKl, HoldsAnInfiniteDivergenceAboveEveryThreshold) {
  const Tensor logp = at::zeros({2}, at::kFloat), behavior_logp = at::full({2}, -3.0, at::kFloat);
  const TokenPolicy policy{logp, behavior_logp, at::tensor({1.0f, -1.0f})};
  const TokenDecision decision = token_coefficients(DppoBinaryKl{.low = 1e30, .high = 1e30}, policy);
  EXPECT_EQ(to_vector(decision.keep), (std::vector<double>{0, 1}));  // the second one comes back towards mu
  EXPECT_TRUE(decision.divergence.isinf().all().item<bool>());
  EXPECT_EQ(to_vector(decision.coefficient)[0], 0);
  EXPECT_NEAR(to_vector(decision.coefficient)[1], -std::exp(3.0), 1e-4);
}

TEST(Dppo, BlocksATokenWhoseProbabilityWasTooSmallForFloat) {
  // mu = e^-120 is 0 in float32 and pi / mu is infinite; the distance is pi, and far above the threshold.
  const TokenPolicy policy{at::full({1}, -0.5, at::kFloat), at::full({1}, -120.0, at::kFloat), at::ones({1})};
  const TokenDecision tv = token_coefficients(DppoBinaryTv{}, policy), kl = token_coefficients(DppoBinaryKl{}, policy);
  EXPECT_FALSE(tv.keep.item<bool>());
  EXPECT_FALSE(kl.keep.item<bool>());
  EXPECT_NEAR(tv.divergence.item<double>(), 0.60653065971263342, 1e-6);
}

TEST(PpoClip, MeasuresTheRatiosDistanceFromOneAgainstItsTwoBounds) {
  const TokenPolicy policy{log_of({0.6, 0.3, 0.8}), log_of({0.5, 0.4, 0.5}),
                           at::tensor({1.0, -1.0, -1.0}, at::kDouble)};
  const TokenDecision decision = token_coefficients(PpoClip{.low = 0.2, .high = 0.1}, policy);
  EXPECT_EQ(to_vector(decision.keep), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(to_vector(decision.threshold), (std::vector<double>{0.1, 0.2, 0.2}));
  const std::vector<double> divergence = to_vector(decision.divergence), want{0.2, 0.25, 0.6};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(divergence[i], want[i], 1e-12) << i;
}

TEST(TokenCoefficients, CarryNoGradientForAnyMethod) {
  for (const Method& method : methods()) {
    const TokenPolicy policy{at::tensor({-0.6, -1.1}, at::kDouble).requires_grad_(),
                             at::tensor({-0.7, -1.0}, at::kDouble), at::tensor({1.0, -1.0}, at::kDouble)};
    const TokenDecision decision = token_coefficients(method.region, policy);
    EXPECT_TRUE(decision.coefficient.abs().sum().item<double>() > 0) << method.name;
    for (const Tensor& part : {decision.coefficient, decision.keep, decision.divergence, decision.threshold})
      EXPECT_FALSE(part.requires_grad()) << method.name;
  }
}

}  // namespace
}  // namespace keel
