#include "keel/train/metrics/token_metrics.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "keel/train/metrics/step_metrics.h"

namespace keel {
namespace {

struct Tokens {
  std::vector<double> pi, mu, advantages, kept, divergence, entropy, outside = {}, reference_kl = {};
  int64_t clamped = 0;
  std::vector<double> topk_mu = {};   // top-K tokens of each, concatenated
  std::vector<int64_t> choices = {};  // with truncated sampling

  void add_to(TokenMetricSums& metrics, bool before_first_update) const {
    const auto tensor = [](const std::vector<double>& x) { return at::tensor(x, at::kDouble).to(at::kFloat); };
    LossInputs policy{tensor(pi).log(), tensor(mu).log(), tensor(advantages)};
    if (!topk_mu.empty()) policy.topk_behavior_logp = tensor(topk_mu).log().view({policy.logp.numel(), -1});
    if (!choices.empty()) policy.choices = at::tensor(choices, at::kLong).to(at::kInt);
    const TokenDecision decision{tensor(advantages),
                                 tensor(kept).to(at::kBool),
                                 tensor(divergence),
                                 at::full_like(policy.logp, 0.15),
                                 outside.empty() ? Tensor() : tensor(outside).to(at::kBool),
                                 at::scalar_tensor(clamped, at::kLong)};
    metrics.add({policy.logp, tensor(entropy)}, policy, decision, before_first_update,
                reference_kl.empty() ? Tensor() : tensor(reference_kl));
  }
};

/// Returns the part of a metrics row that tokens contribute.
Json token_row(const TokenMetricSums& metrics) {
  const Json with = metrics_row(StepMetrics{.tokens = metrics.read()}), without = metrics_row(StepMetrics{});
  Json row = Json::object();
  for (const auto& [name, value] : with.items())
    if (!without.contains(name) && !value.is_structured()) row[name] = value;
  return row;
}

TEST(TokenMetricSums, MatchFractionsAndMeansComputedByHand) {
  const double infinite = std::numeric_limits<double>::infinity();
  TokenMetricSums metrics;
  Tokens{{0.5, 0.2}, {0.4, 0.4}, {1, -1}, {1, 0}, {0.1, 0.2}, {1, 2}, {0, 1}, {0.5, 1.5}}.add_to(metrics, true);
  Tokens{{0.8, 0.1}, {0.5, 0.1}, {0, 2}, {1, 0}, {infinite, 0.3}, {3, 4}, {1, 1}, {2, -1}}.add_to(metrics, false);
  const Json row = token_row(metrics);
  // Ratios 1.25, 0.5, 1.6, 1: their logarithms sum to 0, so the sum of r - 1 - log r is 0.35.
  const std::vector<std::pair<const char*, double>> expected{{"policy/entropy", 2.5},
                                                             {"policy/kl_behavior", 0.35 / 4},
                                                             {"policy/kl_reference", 0.75},
                                                             {"trust_region/masked", 0.5},
                                                             {"trust_region/masked_positive", 0.5},
                                                             {"trust_region/masked_negative", 1},
                                                             {"trust_region/masked_mu_mean", 0.25},    // 0.4 and 0.1
                                                             {"trust_region/masked_entropy_mean", 3},  // 2 and 4
                                                             {"trust_region/bad_updates", 0},
                                                             {"policy/prob_difference_max", 0.3},
                                                             {"policy/prob_difference_min", -0.2},
                                                             {"trust_region/outside", 0.75},
                                                             {"trust_region/divergence_mean", 0.2},
                                                             {"trust_region/divergence_max", 0.3},
                                                             {"trust_region/divergence_infinite", 1},
                                                             {"mismatch/abs_prob_mean", 0.15},
                                                             {"mismatch/abs_prob_max", 0.2},
                                                             {"ratio/mean", 4.35 / 4},
                                                             {"ratio/max", 1.6},
                                                             {"ratio/clamped", 0},
                                                             {"policy/invalid_tokens", 0}};
  EXPECT_EQ(row.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(row.contains(name)) << name;
    EXPECT_NEAR(row.at(name).get<double>(), value, 1e-6) << name;
  }
  const TokenMetrics result = metrics.read().value();
  ASSERT_TRUE(result.divergences && result.ratios);
  EXPECT_EQ(result.divergences->count, 3);  // finite values only
  EXPECT_NEAR(result.divergences->sum, 0.6, 1e-6);
  EXPECT_EQ(result.ratios->count, 4);
  EXPECT_NEAR(result.ratios->sum_of_squares, 1.25 * 1.25 + 0.25 + 1.6 * 1.6 + 1, 1e-5);
}

TEST(TokenMetricSums, DivergencesCountTokensWithMoreThanOneChoice) {
  const double infinite = std::numeric_limits<double>::infinity();
  const std::vector<double> half(5, 0.5), one(5, 1);
  Tokens tokens{half, half, one, {1, 1, 0, 0, 1}, {0, 0.1, 0.5, 0.2, infinite}, one, {0, 0, 1, 1, 0}};
  tokens.choices = {1, 2, 1, 7, 3};
  TokenMetricSums metrics;
  tokens.add_to(metrics, true);
  const TokenMetrics result = metrics.read().value();
  EXPECT_DOUBLE_EQ(result.choices.value(), 3.0 / 5);
  EXPECT_NEAR(result.divergence_mean, (0.1 + 0.2) / 2, 1e-7);
  EXPECT_NEAR(result.divergence_max, 0.2, 1e-7);
  EXPECT_EQ(result.divergence_infinite, 1);
  EXPECT_EQ(result.divergences->count, 2);
  EXPECT_DOUBLE_EQ(result.inside_choices, 1 - 1.0 / 3);
  EXPECT_DOUBLE_EQ(result.outside, 2.0 / 5);  // of all tokens, as the mask
  EXPECT_DOUBLE_EQ(result.masked, 2.0 / 5);
  EXPECT_DOUBLE_EQ(token_row(metrics).at("trust_region/choices"), 3.0 / 5);

  TokenMetricSums none;
  tokens.choices = {1, 1, 1, 1, 1};
  tokens.add_to(none, true);
  EXPECT_TRUE(std::isnan(none.read()->inside_choices));  // adaptive thresholds stay as they are

  TokenMetricSums all;
  tokens.choices.clear();
  tokens.add_to(all, true);
  EXPECT_FALSE(all.read()->choices);
  EXPECT_DOUBLE_EQ(all.read()->inside_choices, 1 - 2.0 / 5);
}

TEST(TokenMetricSums, MaskedByUpdateHasTheFractionOfEachUpdate) {
  const auto tokens_with = [](std::vector<double> kept) {
    const std::vector<double> half(kept.size(), 0.5), one(kept.size(), 1);
    return Tokens{half, half, one, std::move(kept), half, one};
  };
  TokenMetricSums metrics;
  tokens_with({1, 1, 1, 1}).add_to(metrics, true);
  metrics.end_update();
  tokens_with({1, 0}).add_to(metrics, false);
  tokens_with({1, 1, 1}).add_to(metrics, false);  // another chunk of the same update
  metrics.end_update();
  tokens_with({0, 0, 1}).add_to(metrics, false);
  metrics.end_update();
  const Json list = metrics_row(StepMetrics{.tokens = metrics.read()}).at("trust_region/masked_by_update");
  ASSERT_EQ(list.size(), 3u);
  EXPECT_DOUBLE_EQ(list[0].get<double>(), 0);
  EXPECT_DOUBLE_EQ(list[1].get<double>(), 1.0 / 5);
  EXPECT_DOUBLE_EQ(list[2].get<double>(), 2.0 / 3);
}

TEST(TokenMetricSums, KlBehaviorIsAccurateForRatiosNearOne) {
  // In float32 r - 1 - log r is only rounding error here; the exact value is half of the squared log-ratio.
  std::vector<double> mu;
  for (int i = 0; i < 1000; ++i) mu.push_back(0.001 + 0.9 * i / 1000);
  for (const double log_ratio : {-1e-4, 1e-4, 3e-6}) {
    const Tensor behavior_logp = at::tensor(mu, at::kDouble).log().to(at::kFloat);
    const Tensor logp = (behavior_logp + log_ratio).clamp_max(0), advantages = at::ones_like(logp);
    const TokenDecision decision{advantages, advantages.to(at::kBool), advantages, advantages,
                                 {},         at::zeros({}, at::kLong)};
    TokenMetricSums metrics;
    metrics.add({.logp = logp, .entropy = advantages}, {logp, behavior_logp, advantages}, decision, false);
    const Json row = token_row(metrics);
    const Tensor exact = (logp.to(at::kDouble) - behavior_logp.to(at::kDouble));
    const double expected = (exact.expm1() - exact).mean().item<double>();
    EXPECT_NEAR(row.at("policy/kl_behavior").get<double>() / expected, 1, 1e-4) << log_ratio;
  }
}

TEST(TokenMetricSums, BadUpdatesAreNegativeOnesWhoseProbabilityFellByHalf) {
  TokenMetricSums metrics;
  // Fallen by 0.75, by 0.75 with a positive advantage, by 0.5, by 0.25, risen by 0.75: two of five are bad.
  Tokens{{0.125, 0.125, 0.25, 0.25, 0.875},
         {0.875, 0.875, 0.75, 0.5, 0.125},
         {-1, 1, -1, -1, -1},
         {1, 1, 1, 1, 1},
         {0, 0, 0, 0, 0},
         {0, 0, 0, 0, 0}}
      .add_to(metrics, false);
  Tokens{{0.5}, {0.5}, {-1}, {1}, {0}, {0}}.add_to(metrics, false);
  const Json row = token_row(metrics);
  EXPECT_NEAR(row.at("trust_region/bad_updates").get<double>(), 2.0 / 6, 1e-12);
  EXPECT_NEAR(row.at("policy/prob_difference_max").get<double>(), 0.75, 1e-6);
  EXPECT_NEAR(row.at("policy/prob_difference_min").get<double>(), -0.75, 1e-6);
  EXPECT_FALSE(row.contains("trust_region/masked_mu_mean"));  // nothing is masked
  EXPECT_FALSE(row.contains("trust_region/topk_mass"));       // no top-K was recorded
}

TEST(TokenMetricSums, ExtremesKeepTheirSignIfAllTokensMoveOneWay) {
  TokenMetricSums rise, fall, stay;
  Tokens{{0.5, 0.75}, {0.25, 0.625}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}.add_to(rise, false);
  Tokens{{0.25, 0.625}, {0.5, 0.75}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}.add_to(fall, false);
  Tokens{{0.5}, {0.5}, {1}, {1}, {0}, {0}}.add_to(stay, false);
  const auto extremes = [](const TokenMetricSums& metrics) {
    const Json row = token_row(metrics);
    return std::pair{row.at("policy/prob_difference_min").get<double>(),
                     row.at("policy/prob_difference_max").get<double>()};
  };
  EXPECT_NEAR(extremes(rise).first, 0.125, 1e-6);
  EXPECT_NEAR(extremes(rise).second, 0.25, 1e-6);
  EXPECT_NEAR(extremes(fall).first, -0.25, 1e-6);
  EXPECT_NEAR(extremes(fall).second, -0.125, 1e-6);
  EXPECT_EQ(extremes(stay), (std::pair{0.0, 0.0}));
}

TEST(TokenMetricSums, TopKMassIsTheMeanSamplerProbabilityOfTheTopK) {
  TokenMetricSums metrics;
  Tokens first{{0.5, 0.5}, {0.5, 0.5}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, second = first;
  first.topk_mu = {0.5, 0.25, 0.5, 0.375};
  second.topk_mu = {0.625, 0.375, 0.125, 0.125};
  first.add_to(metrics, true);
  second.add_to(metrics, false);
  const Json row = token_row(metrics);
  EXPECT_NEAR(row.at("trust_region/topk_mass").get<double>(), (0.75 + 0.875 + 1 + 0.25) / 4, 1e-6);
}

TEST(TokenMetricSums, SumClampsOverChunksAndStayFinite) {
  TokenMetricSums metrics;
  const double infinite = std::numeric_limits<double>::infinity();
  Tokens far{{0.9, 1e-30, 0.5}, {1e-30, 0.9, 0.5}, {1, 1, 1}, {0, 1, 1}, {infinite, infinite, infinite}, {0, 0, 0}};
  for (const int64_t clamped : {2, 0, 3}) {  // counts of the method, not of pi / mu
    far.clamped = clamped;
    far.add_to(metrics, false);
  }
  const Json row = token_row(metrics);
  EXPECT_EQ(row.at("ratio/clamped"), 5);
  EXPECT_NEAR(row.at("ratio/max").get<double>(), 485165195.40979028, 500);  // e^20
  EXPECT_EQ(row.at("trust_region/divergence_infinite"), 9);
  EXPECT_EQ(row.at("trust_region/divergence_mean"), 0);
  for (const auto& [name, value] : row.items()) EXPECT_TRUE(std::isfinite(value.get<double>())) << name;
  EXPECT_FALSE(row.contains("policy/kl_reference"));  // there is no reference
}

TEST(TokenMetricSums, CountInvalidLogProbabilities) {
  TokenMetricSums metrics;  // pi above 1 and pi = 0, and mu = 0
  Tokens{{0.5, 1.5, 0, 0.5}, {0.5, 0.5, 0.5, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}}.add_to(metrics,
                                                                                                                false);
  const Json row = token_row(metrics);
  EXPECT_EQ(row.at("policy/invalid_tokens"), 3);
}

TEST(TokenMetricSums, AreAbsentWithoutTokens) {
  TokenMetricSums metrics;
  Tokens{}.add_to(metrics, true);
  EXPECT_FALSE(metrics.read());
  EXPECT_TRUE(token_row(metrics).empty());
}

}  // namespace
}  // namespace keel
