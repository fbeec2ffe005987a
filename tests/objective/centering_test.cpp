#include "keel/objective/centering.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "keel/objective/methods.h"
#include "tests/objective/written_weights.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

constexpr int64_t kTokens = 50;

/// Two distributions of 50 tokens for each row, a few of them likely, and advantages of both signs.
struct Policies {
  Tensor logp = at::log_softmax(random_normal({8, kTokens}, 1, at::kDouble) * 2, 1);
  Tensor behavior_logp = at::log_softmax(logp + random_normal({8, kTokens}, 2, at::kDouble) * 0.5, 1);
  Tensor advantages = at::tensor({1.0, -1.0, 0.5, -2.0, 1.0, -1.0, 3.0, -0.25}, at::kDouble);
};

/// A (w (e_a - pi) - (m - pi sum m)) for every token a of a row: [V, V], a direction for each a.
Tensor directions(const TrustRegion& region, double advantage, const Tensor& logp, const Tensor& behavior_logp,
                  const Tensor& masses) {
  const LossInputs tokens{logp, behavior_logp, at::full_like(logp, advantage)};
  const Tensor coefficient = token_coefficients(region, tokens).coefficient, pi = logp.exp();
  return coefficient.unsqueeze(1) * (at::eye(kTokens, at::kDouble) - pi) - advantage * (masses - pi * masses.sum());
}

TEST(Centering, HasTheWrittenWeightsOfEveryToken) {
  const Policies given;
  const Tensor pi = given.logp.exp(), mu = given.behavior_logp.exp();
  for (const WrittenWeight& written : written_weights()) {
    const TrustRegion region = make_region(written.method, written.params);
    const Tensor got = weighted_behavior(region, given.advantages, given.logp, given.behavior_logp);
    const Tensor want = mu * written_rows(written, pi, mu, given.advantages);
    EXPECT_LT(largest_difference(got, want), 1e-14) << written.method;
  }
}

TEST(Centering, IsRefusedForWeightsThatDependOnMore) {
  std::set<std::string> written = {};
  for (const WrittenWeight& each : written_weights()) {
    written.insert(each.method);
    EXPECT_TRUE(token_weights(make_region(each.method, each.params))) << each.method;
  }
  for (const char* penalty : {"ipo", "prime_rl_default"}) written.erase(penalty);  // only with tau = 0
  for (const Method& method : methods()) {
    EXPECT_EQ(token_weights(method.region).has_value(), written.contains(method.name)) << method.name;
    ObjectiveOptions options{.method = method.name, .centering = "exact"};
    if (written.contains(method.name)) {
      EXPECT_TRUE(make_objective(options, 10).requirements().hidden_states);
      options.centering = "topk";
      EXPECT_EQ(make_objective(options, 10).requirements().top_k, 128);
    } else {
      const std::string error = error_of(2, [&] { make_objective(options, 10); });
      EXPECT_THAT(error, testing::HasSubstr("objective.centering is \"exact\", but the method " + method.name));
    }
  }
  const auto reason = [](const char* method, Json params) {
    return no_token_weights_reason(make_region(method, params));
  };
  EXPECT_THAT(reason("ppo", {{"anchor", "recomputed"}}), testing::HasSubstr("recomputed"));
  EXPECT_THAT(reason("gspo", {}), testing::HasSubstr("sequence"));
  EXPECT_THAT(reason("m2po", {}), testing::HasSubstr("update"));
  EXPECT_THAT(reason("dppo_topk_tv", {}), testing::HasSubstr("divergence over several tokens"));
  EXPECT_THAT(reason("maspo", {}), testing::HasSubstr("sign of A"));
}

TEST(Centering, MakesTheMeanDirectionZeroInTheExactForm) {
  const Policies given;
  double largest_remainder = 0, largest_drift = 0;
  for (const WrittenWeight& written : written_weights()) {
    const TrustRegion region = make_region(written.method, written.params);
    for (int64_t i = 0; i < 8; ++i) {
      const Tensor logp = given.logp[i], behavior_logp = given.behavior_logp[i], mu = behavior_logp.exp();
      const double advantage = given.advantages[i].item<double>();
      const auto mean = [&](const Tensor& masses) {
        return mu.matmul(directions(region, advantage, logp, behavior_logp, masses)).abs().max().item<double>();
      };
      const Tensor exact = weighted_behavior(region, given.advantages.slice(0, i, i + 1), logp.unsqueeze(0),
                                             behavior_logp.unsqueeze(0))[0];
      EXPECT_LT(mean(exact), 1e-12) << written.method;
      const Tensor ids = std::get<1>(mu.topk(20));
      const TopKCentering topk =
          topk_centering(region, given.advantages.slice(0, i, i + 1), logp.gather(0, ids).unsqueeze(0),
                         behavior_logp.gather(0, ids).unsqueeze(0));
      const Tensor masses = (logp.exp() * topk.others[0]).scatter(0, ids, topk.masses[0]);
      EXPECT_NEAR(topk.totals.item<double>(), masses.sum().item<double>(), 1e-14);
      largest_remainder = std::max(largest_remainder, mean(masses));
      largest_drift = std::max(largest_drift, mean(at::zeros_like(mu)));
    }
  }
  RecordProperty("topk_remainder", std::to_string(largest_remainder));
  RecordProperty("drift_without_centering", std::to_string(largest_drift));
  std::printf("largest mean direction: %.3g with the top 20 of 50 tokens, %.3g without centering\n", largest_remainder,
              largest_drift);
  EXPECT_LT(largest_remainder, largest_drift / 4);
}

TEST(Centering, SubtractsNothingWherePolicyAndSamplerAgree) {
  const Policies given;
  for (const char* method : {"pg", "pg_is", "dppo_tv", "drpo", "grpo"}) {
    const TrustRegion region = make_region(method, {});
    const Tensor masses = weighted_behavior(region, given.advantages, given.logp, given.logp), pi = given.logp.exp();
    EXPECT_LT((masses - pi * masses.sum(1, true)).abs().max().item<double>(), 1e-15) << method;
    const Tensor few = given.logp.narrow(1, 0, 5);
    const TopKCentering topk = topk_centering(region, given.advantages, few, few);
    EXPECT_LT(largest_difference(topk.masses, few.exp()), 1e-15) << method;
    EXPECT_LT(largest_difference(topk.others, at::ones_like(topk.others)), 1e-12) << method;
  }
}

TEST(Centering, IsExactForOneTokenAndSkipsTokensOfProbabilityZero) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor advantages = at::tensor({1.0, -1.0}, at::kDouble);
  const Tensor only = at::tensor({0.0, -inf, -inf}, at::kDouble).expand({2, 3});
  for (const char* method : {"pg", "pg_is", "dppo_tv", "dppo_kl", "drpo", "spo", "grpo", "aspo", "sapo"}) {
    const TrustRegion region = make_region(method, {});
    EXPECT_TRUE(weighted_behavior(region, advantages, only, only).equal(only.exp())) << method;
    const TopKCentering topk = topk_centering(region, advantages, only, only);
    EXPECT_TRUE(topk.masses.equal(only.exp())) << method;
    EXPECT_TRUE(topk.totals.equal(at::ones({2}, at::kDouble))) << method;
  }
}

}  // namespace
}  // namespace keel
