#include "keel/objective/trust_region.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "keel/objective/methods.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

Tensor log_of(std::vector<double> probabilities) { return at::tensor(probabilities, at::kDouble).log(); }

TEST(Dppo, BlocksATokenThatLeavesTheRegionAndKeepsOneThatComesBack) {
  const TokenPolicy policy{log_of({0.8, 0.8, 0.2, 0.2, 0.6}), log_of({0.5, 0.5, 0.5, 0.5, 0.5}),
                           at::tensor({1.0, -1.0, -2.0, 2.0, 3.0}, at::kDouble)};
  const TokenDecision decision = token_coefficients(Dppo{.low = 0.25, .high = 0.2, .ratio_cap = 1.5}, policy);
  const std::vector<double> g = to_vector(decision.coefficient), want{0, -1.5, 0, 0.8, 3.6};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(g[i], want[i], 1e-12) << i;
  EXPECT_EQ(to_vector(decision.keep), (std::vector<double>{0, 1, 0, 1, 1}));
  EXPECT_EQ(to_vector(decision.threshold), (std::vector<double>{0.2, 0.25, 0.25, 0.2, 0.2}));
  const std::vector<double> divergence = to_vector(decision.divergence), apart{0.3, 0.3, 0.3, 0.3, 0.1};
  for (size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(divergence[i], apart[i], 1e-12) << i;
}

Dppo kl_mask(double both) { return {.low = both, .high = both, .divergence = Divergence::kBinaryKl}; }

TEST(Dppo, HoldsAnInfiniteDivergenceAboveEveryThreshold) {
  const Tensor logp = at::zeros({2}, at::kFloat), behavior_logp = at::full({2}, -3.0, at::kFloat);
  const TokenPolicy policy{logp, behavior_logp, at::tensor({1.0f, -1.0f})};
  const TokenDecision decision = token_coefficients(kl_mask(1e30), policy);
  EXPECT_EQ(to_vector(decision.keep), (std::vector<double>{0, 1}));  // the second one comes back towards mu
  EXPECT_TRUE(decision.divergence.isinf().all().item<bool>());
  EXPECT_EQ(to_vector(decision.coefficient)[0], 0);
  EXPECT_NEAR(to_vector(decision.coefficient)[1], -std::exp(3.0), 1e-4);
}

TEST(Dppo, BlocksATokenWhoseProbabilityWasTooSmallForFloat) {
  // mu = e^-120 is 0 in float32 and pi / mu is infinite; the distance is pi, and far above the threshold.
  const TokenPolicy policy{at::full({1}, -0.5, at::kFloat), at::full({1}, -120.0, at::kFloat), at::ones({1})};
  const TokenDecision tv = token_coefficients(Dppo{}, policy), kl = token_coefficients(kl_mask(0.05), policy);
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

/// A policy with everything that any region may ask for: one sequence of two tokens.
TokenPolicy complete_policy() {
  const auto numbers = [](std::vector<double> x) { return at::tensor(x, at::kDouble); };
  TokenPolicy policy{numbers({-0.69, -1.01}), numbers({-0.7, -1.0}), numbers({1, -1})};
  policy.old_logp = numbers({-0.65, -1.05});
  policy.topk_behavior_logp = numbers({-0.7, -1.0}).unsqueeze(1);
  policy.topk_logp = numbers({-0.69, -1.01}).unsqueeze(1);
  policy.sampled_in_topk = at::ones({2}, at::kBool);
  policy.divergence = numbers({0.06, 0.04});
  return policy;
}

TEST(TokenCoefficients, CarryNoGradientForAnyMethod) {
  for (const Method& method : methods()) {
    TokenPolicy policy = complete_policy();
    for (Tensor* input : {&policy.logp, &policy.advantages, &policy.divergence, &policy.topk_logp})
      input->requires_grad_();
    const TokenDecision decision = token_coefficients(method.region, policy);
    EXPECT_TRUE(decision.coefficient.abs().sum().item<double>() > 0) << method.name;
    for (const Tensor& part :
         {decision.coefficient, decision.keep, decision.divergence, decision.threshold, decision.outside})
      EXPECT_FALSE(part.requires_grad()) << method.name;
  }
}

TEST(TokenCoefficients, NeedWhatTheirRequirementsDeclareAndNothingElse) {
  int refused = 0;
  for (const Method& method : methods()) {
    const Requirements needs = requirements(method.region);
    const auto check = [&](bool needed, Tensor TokenPolicy::*input) {
      TokenPolicy policy = complete_policy();
      policy.*input = Tensor();
      if (!needed) {
        EXPECT_NO_THROW(token_coefficients(method.region, policy)) << method.name;
        return;
      }
      EXPECT_NE(error_of(70, [&] { token_coefficients(method.region, policy); }).find("needs"), std::string::npos);
      ++refused;
    };
    check(needs.recomputed_logp, &TokenPolicy::old_logp);
    check(needs.top_k > 0, &TokenPolicy::topk_logp);
    check(needs.top_k > 0, &TokenPolicy::topk_behavior_logp);
    check(needs.top_k > 0, &TokenPolicy::sampled_in_topk);
    check(needs.hidden_states, &TokenPolicy::divergence);
  }
  EXPECT_GE(refused, 5 + 3 * 4 + 4);  // corrections; top-K of DPPO and DRPO; exact ones of both; and newer rows
}

TEST(TokenCoefficients, DependOnOtherTokensOnlyAsFarAsTheScopeSays) {
  // Two sequences; what stands in the second, or in the first one's other token, is changed.
  const auto policy_of = [](double second, double other) {
    TokenPolicy policy = complete_policy();
    for (Tensor* x : {&policy.logp, &policy.behavior_logp, &policy.advantages, &policy.old_logp, &policy.divergence,
                      &policy.topk_logp, &policy.topk_behavior_logp, &policy.sampled_in_topk})
      *x = at::cat({*x, *x});
    policy.advantages = at::tensor({1.0, 1.0, 1.0, 1.0}, at::kDouble);
    policy.logp = at::tensor({-0.6, other, second, -1.1}, at::kDouble);
    policy.lengths = {2, 2};
    return policy;
  };
  for (const Method& method : methods()) {
    const auto g = [&](double second, double other) {
      const TokenDecision decision = token_coefficients(method.region, policy_of(second, other));
      return std::vector<double>{decision.coefficient[0].item<double>(), decision.keep[0].item<double>()};
    };
    const Scope scope = requirements(method.region).scope;
    if (scope != Scope::kBatch) {
      EXPECT_EQ(g(-1.1, -0.9), g(-0.2, -0.9)) << method.name;
    }
    if (scope == Scope::kToken) {
      EXPECT_EQ(g(-1.1, -0.9), g(-1.1, -0.2)) << method.name;
    }
  }
}

TEST(TokenCoefficients, LetNothingOutOfMaskedSlots) {
  for (const Method& method : methods()) {
    TokenPolicy plain = complete_policy(), padded = complete_policy();
    const double nan = std::nan("");
    for (Tensor* x : {&padded.logp, &padded.behavior_logp, &padded.advantages, &padded.old_logp, &padded.divergence})
      *x = at::cat({x->narrow(0, 0, 1), at::full({1}, nan, at::kDouble), x->narrow(0, 1, 1)});
    for (Tensor* x : {&padded.topk_logp, &padded.topk_behavior_logp})
      *x = at::cat({x->narrow(0, 0, 1), at::full({1, 1}, nan, at::kDouble), x->narrow(0, 1, 1)});
    padded.sampled_in_topk = at::ones({3}, at::kBool);
    padded.mask = at::tensor(std::vector<int64_t>{1, 0, 1}, at::kLong).to(at::kBool);
    const TokenDecision want = token_coefficients(method.region, plain);
    const TokenDecision got = token_coefficients(method.region, padded);
    const std::vector<double> a = to_vector(want.coefficient), b = to_vector(got.coefficient);
    EXPECT_EQ((std::vector<double>{a[0], 0, a[1]}), b) << method.name;
    const std::vector<double> kept = to_vector(want.keep);
    EXPECT_EQ((std::vector<double>{kept[0], 1, kept[1]}), to_vector(got.keep)) << method.name;
  }
}

TEST(Dppo, TakesExactDivergencesFromWhoeverKnowsThem) {
  TokenPolicy policy{log_of({0.6, 0.6, 0.4}), log_of({0.5, 0.5, 0.5}), at::tensor({1.0, 1.0, 1.0}, at::kDouble)};
  policy.divergence = at::tensor({0.19, 0.21, 0.9}, at::kDouble);
  const Dppo region{.low = 0.2, .high = 0.2, .divergence = Divergence::kFullTv};
  EXPECT_EQ(to_vector(token_coefficients(region, policy).keep), (std::vector<double>{1, 0, 1}));
}

TEST(Dppo, RefusesARecomputedAnchorForADivergenceFromTheSampler) {
  const Dppo region{.divergence = Divergence::kTopKTv, .anchor = Anchor::kRecomputed};
  const std::string message = error_of(2, [&] { token_coefficients(region, complete_policy()); });
  EXPECT_NE(message.find("topk_tv"), std::string::npos) << message;
}

TEST(Dppo, JudgesDirectionAndDistanceByItsAnchor) {
  // pi = 0.7 lies above mu = 0.5 and below old = 0.9: up leads away from mu and towards old.
  TokenPolicy policy{log_of({0.7, 0.7}), log_of({0.5, 0.5}), at::tensor({1.0, -1.0}, at::kDouble)};
  policy.old_logp = log_of({0.9, 0.9});
  EXPECT_EQ(to_vector(token_coefficients(Dppo{}, policy).keep), (std::vector<double>{0, 1}));
  const TokenDecision recomputed = token_coefficients(Dppo{.anchor = Anchor::kRecomputed}, policy);
  EXPECT_EQ(to_vector(recomputed.keep), (std::vector<double>{1, 0}));
  EXPECT_NEAR(to_vector(recomputed.coefficient)[0], 1.4, 1e-12);  // the ratio is over mu all the same
}

TEST(TrmMax, BlocksAWholeSequenceButDecidesNothingAboutHiddenTokens) {
  TokenPolicy policy{log_of({0.9, 0.5, 0.5, 0.5}), log_of({0.5, 0.5, 0.5, 0.5}), at::ones({4}, at::kDouble)};
  policy.mask = at::tensor(std::vector<int64_t>{1, 1, 0, 1}, at::kLong).to(at::kBool);
  policy.lengths = {3, 1};
  const TokenDecision decision = token_coefficients(TrmMax{}, policy);
  EXPECT_EQ(to_vector(decision.keep), (std::vector<double>{0, 0, 1, 1}));
  EXPECT_EQ(to_vector(decision.outside), (std::vector<double>{1, 1, 0, 0}));
  EXPECT_EQ(to_vector(decision.coefficient), (std::vector<double>{0, 0, 0, 1}));
}

TEST(Cppo, InterpolatesTheQuantileOfASequencesDistances) {
  // Distances .1, .3, .2, (hidden), .0; their 0.5-quantile is .15, their 0.9-quantile .2 + .7 (.3 - .2) = .27.
  TokenPolicy policy{log_of({0.6, 0.8, 0.7, 0.99, 0.5}), log_of({0.5, 0.5, 0.5, 0.5, 0.5}), at::ones({5}, at::kDouble)};
  policy.mask = at::tensor(std::vector<int64_t>{1, 1, 1, 0, 1}, at::kLong).to(at::kBool);
  for (const auto& [quantile, allowed] : {std::pair{0.5, 0.15}, std::pair{0.9, 0.27}}) {
    const Cppo region{.delta = 1, .w_min = 1, .delta_b = 0, .quantile = quantile};
    const std::vector<double> threshold = to_vector(token_coefficients(region, policy).threshold);
    double budget = 1;
    const std::vector<double> distances{0.1, 0.3, 0.2};
    for (size_t t = 0; t < distances.size(); ++t) {
      EXPECT_NEAR(threshold[t], std::min(budget, 1.0), 1e-12) << t;
      budget += allowed - distances[t];
    }
    EXPECT_NEAR(threshold[4], std::min(budget, 1.0), 1e-12);
  }
}

TEST(Drpo, SaysHowFarADistributionMovedWhoseSampledTokenStayed) {
  const Tensor stayed = at::tensor({0.1}, at::kDouble).log();
  const TokenDecision decision = token_coefficients(Drpo{.delta = 0.1, .divergence = Divergence::kFullTv},
                                                    {.logp = stayed,
                                                     .behavior_logp = stayed,
                                                     .advantages = at::ones({1}, at::kDouble),
                                                     .divergence = at::tensor({0.3}, at::kDouble)});
  EXPECT_EQ(decision.divergence.item<double>(), 0.3);
  EXPECT_TRUE(decision.outside.item<bool>());
  EXPECT_EQ(decision.coefficient.item<double>(), 1);  // r A: pushed neither way
}

TEST(Drpo, WithAnotherDivergenceKeepsTheSampledTokensDirection) {
  TokenPolicy policy{log_of({0.6, 0.6, 0.4, 0.4}), log_of({0.5, 0.5, 0.5, 0.5}),
                     at::tensor({1.0, -1.0, 1.0, -1.0}, at::kDouble)};
  policy.divergence = at::tensor({0.25, 0.25, 0.25, 0.25}, at::kDouble);
  const Drpo region{.delta = 0.5, .divergence = Divergence::kFullTv};
  const std::vector<double> g = to_vector(token_coefficients(region, policy).coefficient);
  const std::vector<double> want{1.2 * 0.5, -1.2 * 1.5, 0.8 * 1.5, -0.8 * 0.5};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(g[i], want[i], 1e-12) << i;
}

}  // namespace
}  // namespace keel
