#include "keel/train/token_metrics.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace keel {
namespace {

struct Tokens {
  std::vector<double> pi, mu, advantages, kept, divergence, entropy, outside = {}, reference_kl = {};
  int64_t clamped = 0;

  void add_to(TokenMetrics& metrics, bool equal_parameters) const {
    const auto tensor = [](const std::vector<double>& x) { return at::tensor(x, at::kDouble).to(at::kFloat); };
    const TokenPolicy policy{tensor(pi).log(), tensor(mu).log(), tensor(advantages)};
    const TokenDecision decision{tensor(advantages),
                                 tensor(kept).to(at::kBool),
                                 tensor(divergence),
                                 at::full_like(policy.logp, 0.15),
                                 outside.empty() ? Tensor() : tensor(outside).to(at::kBool),
                                 at::scalar_tensor(clamped, at::kLong)};
    metrics.add({policy.logp, tensor(entropy)}, policy, decision, equal_parameters,
                reference_kl.empty() ? Tensor() : tensor(reference_kl));
  }
};

TEST(TokenMetrics, AreTheHandComputedSharesAndMeansOverAllChunks) {
  const double infinite = std::numeric_limits<double>::infinity();
  TokenMetrics metrics;
  Tokens{{0.5, 0.2}, {0.4, 0.4}, {1, -1}, {1, 0}, {0.1, 0.2}, {1, 2}, {0, 1}, {0.5, 1.5}}.add_to(metrics, true);
  Tokens{{0.8, 0.1}, {0.5, 0.1}, {0, 2}, {1, 0}, {infinite, 0.3}, {3, 4}, {1, 1}, {2, -1}}.add_to(metrics, false);
  Json row;
  metrics.write(row);
  // Ratios 1.25, 0.5, 1.6, 1: their logarithms add up to 0, so the sum of r - 1 - log r is 0.35.
  const std::vector<std::pair<const char*, double>> want{{"policy/entropy", 2.5},
                                                         {"policy/kl_behavior", 0.35 / 4},
                                                         {"policy/kl_reference", 0.75},
                                                         {"trust_region/masked", 0.5},
                                                         {"trust_region/masked_positive", 0.5},
                                                         {"trust_region/masked_negative", 1},
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
  EXPECT_EQ(row.size(), want.size());
  for (const auto& [name, value] : want) {
    ASSERT_TRUE(row.contains(name)) << name;
    EXPECT_NEAR(row.at(name).get<double>(), value, 1e-6) << name;
  }
}

TEST(TokenMetrics, AddUpTheClampsOfAllChunksAndStayFinite) {
  TokenMetrics metrics;
  const double infinite = std::numeric_limits<double>::infinity();
  Tokens far{{0.9, 1e-30, 0.5}, {1e-30, 0.9, 0.5}, {1, 1, 1}, {0, 1, 1}, {infinite, infinite, infinite}, {0, 0, 0}};
  for (const int64_t clamped : {2, 0, 3}) {  // what the method says of them, not what pi/mu would have
    far.clamped = clamped;
    far.add_to(metrics, false);
  }
  Json row;
  metrics.write(row);
  EXPECT_EQ(row.at("ratio/clamped"), 5);
  EXPECT_NEAR(row.at("ratio/max").get<double>(), 485165195.40979028, 500);  // e^20
  EXPECT_EQ(row.at("trust_region/divergence_infinite"), 9);
  EXPECT_EQ(row.at("trust_region/divergence_mean"), 0);
  for (const auto& [name, value] : row.items()) EXPECT_TRUE(std::isfinite(value.get<double>())) << name;
  EXPECT_FALSE(row.contains("policy/kl_reference"));  // there is none
}

TEST(TokenMetrics, CountWhatIsNoLogProbability) {
  TokenMetrics metrics;  // above 1, and 0, whose logarithm is -inf: the trainer's twice, the sampler's once
  Tokens{{0.5, 1.5, 0, 0.5}, {0.5, 0.5, 0.5, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}}.add_to(metrics,
                                                                                                                false);
  Json row;
  metrics.write(row);
  EXPECT_EQ(row.at("policy/invalid_tokens"), 3);
}

TEST(TokenMetrics, OfNoTokensSayNothing) {
  TokenMetrics metrics;
  Tokens{}.add_to(metrics, true);
  Json row = {{"step", 1}};
  metrics.write(row);
  EXPECT_EQ(row, Json({{"step", 1}}));
}

}  // namespace
}  // namespace keel
