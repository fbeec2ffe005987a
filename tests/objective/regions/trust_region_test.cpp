#include "keel/objective/regions/trust_region.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "keel/objective/methods.h"
#include "keel/objective/regions/region_parameters.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

Tensor log_of(std::vector<double> probabilities) { return at::tensor(probabilities, at::kDouble).log(); }

TEST(Dppo, BlocksATokenThatMovesAwayAndKeepsOneThatMovesBack) {
  const LossInputs policy{log_of({0.8, 0.8, 0.2, 0.2, 0.6}), log_of({0.5, 0.5, 0.5, 0.5, 0.5}),
                          at::tensor({1.0, -1.0, -2.0, 2.0, 3.0}, at::kDouble)};
  const TokenDecision decision = token_coefficients(Dppo{.low = 0.25, .high = 0.2, .ratio_cap = 1.5}, policy);
  const std::vector<double> g = to_vector(decision.coefficient), want{0, -1.5, 0, 0.8, 3.6};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(g[i], want[i], 1e-12) << i;
  EXPECT_EQ(to_vector(decision.keep), (std::vector<double>{0, 1, 0, 1, 1}));
  EXPECT_EQ(to_vector(decision.threshold), (std::vector<double>{0.2, 0.25, 0.25, 0.2, 0.2}));
  const std::vector<double> divergence = to_vector(decision.divergence), apart{0.3, 0.3, 0.3, 0.3, 0.1};
  for (size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(divergence[i], apart[i], 1e-12) << i;
}

Dppo kl_mask(double both) {
  return {.low = both, .high = both, .ratio_cap = kUnlimited, .divergence = Divergence::kBinaryKl};
}

TEST(Dppo, BlocksAnInfiniteDivergenceForEveryThreshold) {
  const Tensor logp = at::zeros({2}, at::kFloat), behavior_logp = at::full({2}, -3.0, at::kFloat);
  const LossInputs policy{logp, behavior_logp, at::tensor({1.0f, -1.0f})};
  const TokenDecision decision = token_coefficients(kl_mask(1e30), policy);
  EXPECT_EQ(to_vector(decision.keep), (std::vector<double>{0, 1}));  // the second one moves back to mu
  EXPECT_TRUE(decision.divergence.isinf().all().item<bool>());
  EXPECT_EQ(to_vector(decision.coefficient)[0], 0);
  EXPECT_NEAR(to_vector(decision.coefficient)[1], -std::exp(3.0), 1e-4);
}

TEST(Dppo, BlocksATokenWhoseMuUnderflowsInFloat) {
  // mu = e^-120 is 0 in float32 and pi / mu is infinite; the distance is pi, and far above the threshold.
  const LossInputs policy{at::full({1}, -0.5, at::kFloat), at::full({1}, -120.0, at::kFloat), at::ones({1})};
  const TokenDecision tv = token_coefficients(Dppo{}, policy), kl = token_coefficients(kl_mask(0.05), policy);
  EXPECT_FALSE(tv.keep.item<bool>());
  EXPECT_FALSE(kl.keep.item<bool>());
  EXPECT_NEAR(tv.divergence.item<double>(), 0.60653065971263342, 1e-6);
}

TEST(PpoClip, ComparesTheRatioWithItsTwoBounds) {
  const LossInputs policy{log_of({0.6, 0.3, 0.8}), log_of({0.5, 0.4, 0.5}), at::tensor({1.0, -1.0, -1.0}, at::kDouble)};
  const TokenDecision decision = token_coefficients(PpoClip{.low = 0.2, .high = 0.1}, policy);
  EXPECT_EQ(to_vector(decision.keep), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(to_vector(decision.threshold), (std::vector<double>{0.1, 0.2, 0.2}));
  const std::vector<double> divergence = to_vector(decision.divergence), want{0.2, 0.25, 0.6};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(divergence[i], want[i], 1e-12) << i;
}

/// Inputs with all fields that any region can require: one sequence of two tokens.
LossInputs complete_policy() {
  const auto numbers = [](std::vector<double> x) { return at::tensor(x, at::kDouble); };
  LossInputs policy{numbers({-0.69, -1.01}), numbers({-0.7, -1.0}), numbers({1, -1})};
  policy.old_logp = numbers({-0.65, -1.05});
  policy.topk_behavior_logp = numbers({-0.7, -1.0}).unsqueeze(1);
  policy.topk_logp = numbers({-0.69, -1.01}).unsqueeze(1);
  policy.sampled_in_topk = at::ones({2}, at::kBool);
  policy.divergence = numbers({0.06, 0.04});
  return policy;
}

TEST(TokenCoefficients, CarryNoAutogradGraphForAnyMethod) {
  for (const Method& method : methods()) {
    LossInputs policy = complete_policy();
    for (Tensor* input : {&policy.logp, &policy.advantages, &policy.divergence, &policy.topk_logp})
      input->requires_grad_();
    const TokenDecision decision = token_coefficients(method.region, policy);
    EXPECT_TRUE(decision.coefficient.abs().sum().item<double>() > 0) << method.name;
    for (const Tensor& part :
         {decision.coefficient, decision.keep, decision.divergence, decision.threshold, decision.outside})
      EXPECT_FALSE(part.requires_grad()) << method.name;
  }
}

TEST(TokenCoefficients, NeedExactlyTheirDeclaredRequirements) {
  int refused = 0;
  for (const Method& method : methods()) {
    const Requirements needs = requirements(method.region);
    const auto check = [&](bool needed, Tensor LossInputs::*input) {
      LossInputs policy = complete_policy();
      policy.*input = Tensor();
      if (!needed) {
        EXPECT_NO_THROW(token_coefficients(method.region, policy)) << method.name;
        return;
      }
      EXPECT_THAT(error_of(70, [&] { token_coefficients(method.region, policy); }), HasSubstr("needs"));
      ++refused;
    };
    check(needs.recomputed_logp, &LossInputs::old_logp);
    check(needs.top_k > 0, &LossInputs::topk_logp);
    check(needs.top_k > 0, &LossInputs::topk_behavior_logp);
    check(needs.top_k > 0, &LossInputs::sampled_in_topk);
    check(needs.hidden_states, &LossInputs::divergence);
  }
  EXPECT_GE(refused, 5 + 3 * 4 + 4);  // corrections; top-K and exact divergences of DPPO and DRPO; and newer methods
}

TEST(TokenCoefficients, DependOnOtherTokensOnlyWithinTheScope) {
  // Two sequences: changes the second one, or the other token of the first.
  const auto policy_of = [](double second, double other) {
    LossInputs policy = complete_policy();
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

TEST(TokenCoefficients, DoNotDependOnMaskedTokens) {
  for (const Method& method : methods()) {
    LossInputs plain = complete_policy(), padded = complete_policy();
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

TEST(Dppo, ReadsExactDivergencesFromTheInputs) {
  LossInputs policy{log_of({0.6, 0.6, 0.4}), log_of({0.5, 0.5, 0.5}), at::tensor({1.0, 1.0, 1.0}, at::kDouble)};
  policy.divergence = at::tensor({0.19, 0.21, 0.9}, at::kDouble);
  const Dppo region{.low = 0.2, .high = 0.2, .divergence = Divergence::kFullTv};
  EXPECT_EQ(to_vector(token_coefficients(region, policy).keep), (std::vector<double>{1, 0, 1}));
}

TEST(Dppo, RejectsARecomputedAnchorForSamplerDivergences) {
  const Dppo region{.divergence = Divergence::kTopKTv, .anchor = Anchor::kRecomputed};
  EXPECT_THAT(error_of(2, [&] { token_coefficients(region, complete_policy()); }), HasSubstr("topk_tv"));
}

TEST(Dppo, MeasuresDirectionAndDistanceFromItsAnchor) {
  // pi = 0.7 is above mu = 0.5 and below old = 0.9: an increase moves away from mu and towards old.
  LossInputs policy{log_of({0.7, 0.7}), log_of({0.5, 0.5}), at::tensor({1.0, -1.0}, at::kDouble)};
  policy.old_logp = log_of({0.9, 0.9});
  EXPECT_EQ(to_vector(token_coefficients(Dppo{.low = 0.15, .high = 0.15}, policy).keep), (std::vector<double>{0, 1}));
  const TokenDecision recomputed =
      token_coefficients(Dppo{.low = 0.15, .high = 0.15, .anchor = Anchor::kRecomputed}, policy);
  EXPECT_EQ(to_vector(recomputed.keep), (std::vector<double>{1, 0}));
  EXPECT_NEAR(to_vector(recomputed.coefficient)[0], 1.4, 1e-12);  // the ratio is over mu
}

TEST(TrmMax, BlocksAWholeSequenceExceptMaskedTokens) {
  LossInputs policy{log_of({0.9, 0.5, 0.5, 0.5}), log_of({0.5, 0.5, 0.5, 0.5}), at::ones({4}, at::kDouble)};
  policy.mask = at::tensor(std::vector<int64_t>{1, 1, 0, 1}, at::kLong).to(at::kBool);
  policy.lengths = {3, 1};
  const TokenDecision decision = token_coefficients(TrmMax{}, policy);
  EXPECT_EQ(to_vector(decision.keep), (std::vector<double>{0, 0, 1, 1}));
  EXPECT_EQ(to_vector(decision.outside), (std::vector<double>{1, 1, 0, 0}));
  EXPECT_EQ(to_vector(decision.coefficient), (std::vector<double>{0, 0, 0, 1}));
}

/// Two normal tokens, and one with log mu = -1e-9 whose log pi float32 rounds to 0.
LossInputs with_a_sure_token() {
  LossInputs policy{at::tensor({-0.69f, -0.7f, 0.0f}), at::tensor({-0.7f, -0.69f, -1e-9f}), at::ones({3})};
  policy.lengths = {2, 1};
  policy.old_logp = policy.behavior_logp;
  return policy;
}

LossInputs and_its_others(LossInputs policy) {
  policy.other_logp = at::tensor({-0.696f, -0.686f, -20.8f});
  policy.behavior_other_logp = policy.old_other_logp = at::tensor({-0.686f, -0.696f, -20.723266f});
  return policy;
}

TEST(SureTokens, AreNotBlockedIfOtherLogpIsGiven) {
  const LossInputs rounded = with_a_sure_token(), known = and_its_others(rounded);
  const std::vector<TrustRegion> regions{TrmMax{}, TrmAvg{}, kl_mask(0.05),
                                         Dppo{.divergence = Divergence::kBinaryKl, .anchor = Anchor::kRecomputed}};
  for (const TrustRegion& region : regions) {
    EXPECT_EQ(to_vector(token_coefficients(region, rounded).keep), (std::vector<double>{1, 1, 0})) << region.index();
    const TokenDecision decision = token_coefficients(region, known);
    EXPECT_EQ(to_vector(decision.keep), (std::vector<double>{1, 1, 1})) << region.index();
    EXPECT_LT(decision.divergence.max().item<double>(), 1e-3) << region.index();
    // The mask also covers other_logp.
    LossInputs masked = known;
    masked.mask = at::tensor(std::vector<int64_t>{1, 1, 0}, at::kLong).to(at::kBool);
    masked.other_logp = at::tensor({-0.696f, -0.686f, std::nanf("")});
    EXPECT_EQ(to_vector(token_coefficients(region, masked).divergence)[2], 0) << region.index();
  }
}

TEST(Cppo, InterpolatesTheQuantileOfTheDistances) {
  // Distances .1, .3, .2, (masked), .0; their 0.5-quantile is .15, their 0.9-quantile .2 + .7 (.3 - .2) = .27.
  LossInputs policy{log_of({0.6, 0.8, 0.7, 0.99, 0.5}), log_of({0.5, 0.5, 0.5, 0.5, 0.5}), at::ones({5}, at::kDouble)};
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

TEST(Drpo, ReportsTheDivergenceAlsoIfTheSampledTokenIsUnchanged) {
  const Tensor stayed = at::tensor({0.1}, at::kDouble).log();
  const TokenDecision decision = token_coefficients(Drpo{.delta = 0.1, .divergence = Divergence::kFullTv},
                                                    {.logp = stayed,
                                                     .behavior_logp = stayed,
                                                     .advantages = at::ones({1}, at::kDouble),
                                                     .divergence = at::tensor({0.3}, at::kDouble)});
  EXPECT_EQ(decision.divergence.item<double>(), 0.3);
  EXPECT_TRUE(decision.outside.item<bool>());
  EXPECT_EQ(decision.coefficient.item<double>(), 1);  // r A, without penalty
}

TEST(Drpo, WithAnotherDivergenceKeepsTheDirectionOfTheSampledToken) {
  LossInputs policy{log_of({0.6, 0.6, 0.4, 0.4}), log_of({0.5, 0.5, 0.5, 0.5}),
                    at::tensor({1.0, -1.0, 1.0, -1.0}, at::kDouble)};
  policy.divergence = at::tensor({0.25, 0.25, 0.25, 0.25}, at::kDouble);
  const Drpo region{.delta = 0.5, .divergence = Divergence::kFullTv};
  const std::vector<double> g = to_vector(token_coefficients(region, policy).coefficient);
  // B = 0.1, D - B = 0.15; c = 0.1/0.6 upwards, 0.1/0.5 downwards: steps of 0.125 and -0.13.
  const std::vector<double> want{1.2 * 0.75, -1.2 * 1.25, 0.8 * 1.26, -0.8 * 0.74};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(g[i], want[i], 1e-12) << i;
}

/// The weights g/(r A) of tokens whose distributions changed: the sampler gave (0.4, 0.3) to the two most likely tokens
/// and mu to the sampled one; the policy gives (0.1, 0.3) and pi. The exact divergences are 0.35, too.
std::vector<double> drpo_weights(const TrustRegion& region, const Tensor& logp, const Tensor& behavior_logp,
                                 double advantage) {
  const int64_t tokens = logp.numel();
  const auto rows = [&](std::vector<double> x) {
    return at::tensor(x, at::kDouble).log().to(logp.scalar_type()).expand({tokens, 2});
  };
  LossInputs policy{logp, behavior_logp, at::full_like(logp, advantage)};
  policy.topk_behavior_logp = rows({0.4, 0.3});
  policy.topk_logp = rows({0.1, 0.3});
  policy.sampled_in_topk = at::zeros({tokens}, at::kBool);
  policy.divergence = at::full_like(logp, 0.35);
  const Tensor g = token_coefficients(region, policy).coefficient.to(at::kDouble);
  return to_vector(g / ((logp - behavior_logp).to(at::kDouble).exp() * advantage));
}

double drpo_weight(const TrustRegion& region, const Tensor& logp, const Tensor& behavior_logp, double advantage) {
  return drpo_weights(region, logp, behavior_logp, advantage).at(0);
}

TEST(Drpo, HasAContinuousWeightWherePiPassesMu) {
  for (const char* name : {"drpo", "drpo_topk_tv", "drpo_topk_kl", "drpo_full_tv", "drpo_full_kl"}) {
    SCOPED_TRACE(name);
    const TrustRegion region = make_region(name, Json::object());
    for (const double advantage : {1.0, -1.0}) {
      // The next float32 above and below mu: rounding must not change the sign of the weight.
      const float mu = std::log(0.2f);
      for (const float next : {std::nextafter(mu, 0.0f), std::nextafter(mu, -1.0f)})
        EXPECT_NEAR(drpo_weight(region, at::full({1}, next, at::kFloat), at::full({1}, mu, at::kFloat), advantage), 1,
                    2e-6);
      // Over 0.01 <= pi <= 0.29 in steps of 1e-4 the slope is at most 60.
      const Tensor pi = 0.01 + 1e-4 * at::arange(2801, at::kDouble);
      const std::vector<double> weights = drpo_weights(region, pi.log(), at::full_like(pi, 0.2).log(), advantage);
      for (size_t i = 1; i < weights.size(); ++i) {
        const double change = weights[i] - weights[i - 1];
        EXPECT_LE(std::abs(change), 60 * 1e-4) << i;
        EXPECT_LE(change * advantage, 1e-12) << i;  // decreases with the distance from mu
      }
    }
  }
}

TEST(Drpo, HasAStepBetweenTheDivergencesOfTokenAndDistribution) {
  const TrustRegion whole = make_region("drpo_full_tv", Json::object());
  for (const double pi : {0.01, 0.1, 0.19, 0.21, 0.3, 0.5}) {
    const double step = std::abs(1 - drpo_weight(whole, log_of({pi}), log_of({0.2}), 1)) * 0.5;
    EXPECT_GE(step, std::abs(pi - 0.2) - 1e-12) << pi;
    EXPECT_LE(step, 0.35 + 1e-12) << pi;
  }
  // For a token that lost or gained almost all of its probability, the step is the full divergence.
  EXPECT_NEAR(1 - drpo_weight(whole, log_of({1e-9}), log_of({0.2}), 1), -0.35 / 0.5, 1e-6);
  EXPECT_NEAR(1 - drpo_weight(whole, log_of({0.1}), log_of({1e-9}), 1), 0.35 / 0.5, 1e-6);
}

TEST(Drpo, WithThePublishedDeltaStaysWithinEightPercentOfTheSurrogate) {
  // w = 1 - sign(A)(pi - mu)/12.5: 0.92 and 1.08 for a change of probability by 1.
  const TrustRegion published = make_region("drpo", {{"delta", 12.5}});
  for (const auto& [pi, mu, advantage, want] :
       {std::tuple{0.75, 0.5, 2.0, 0.98}, std::tuple{0.9, 0.2, 1.0, 0.944}, std::tuple{0.25, 0.5, 1.0, 1.02},
        std::tuple{0.25, 0.5, -1.0, 0.98}, std::tuple{1.0, 1e-8, 1.0, 0.92}, std::tuple{1e-8, 1.0, 1.0, 1.08}})
    EXPECT_NEAR(drpo_weight(published, log_of({pi}), log_of({mu}), advantage), want, 1e-8) << pi << " from " << mu;
  // With the default delta the second weight changes its sign.
  EXPECT_NEAR(drpo_weight(make_region("drpo", Json::object()), log_of({0.9}), log_of({0.2}), 1), -0.4, 1e-12);
}

TEST(MinimalMask, MeasuresTheFallFromItsAnchorAndWeighsByTheSampler) {
  // The first falls by 0.6 from mu and 0.3 from old, the second by 0.3 and 0.6; the third rises.
  LossInputs policy{log_of({0.3, 0.3, 0.9}), log_of({0.9, 0.6, 0.3}), at::tensor({-1.0, -1.0, 1.0}, at::kDouble)};
  policy.old_logp = log_of({0.6, 0.9, 0.3});
  const auto g = [&](const MinimalMask& region) { return to_vector(token_coefficients(region, policy).coefficient); };
  const auto expect = [&](const MinimalMask& region, const std::vector<double>& want) {
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(g(region)[i], want[i], 1e-12) << i;
  };
  expect({}, {0, -0.5, 3});
  expect({.anchor = Anchor::kRecomputed}, {-1.0 / 3, 0, 3});
  expect({.ratio_cap = 2, .anchor = Anchor::kRecomputed}, {-1.0 / 3, 0, 2});
}

TEST(RatioClips, AcceptARatioCapThatDoesNotChangeTheMask) {
  // r = 1.1, 8, 8, 0.5, 0.9; every upper bound blocks the second; the third has A < 0.
  LossInputs policy{log_of({0.55, 0.8, 0.8, 0.25, 0.45}), log_of({0.5, 0.1, 0.1, 0.5, 0.5}),
                    at::tensor({1.0, 1.0, -1.0, -1.0, -1.0}, at::kDouble)};
  int capped = 0;
  for (const char* name : {"grpo", "grpo_clip_higher", "dr_grpo", "dapo", "ppo", "ppo_gae", "up_grpo", "icepop_direct",
                           "m2po", "ds_v32", "grpo_relax_high", "grpo_relax_low", "grpo_relax_both"}) {
    SCOPED_TRACE(name);
    Json parameters = Json::object();
    if (std::string(name) == "up_grpo") parameters["dual"] = Json();
    if (std::string(name) == "icepop_direct") parameters["ratio_high"] = 10;
    const TokenDecision free = token_coefficients(make_region(name, parameters), policy);
    parameters["ratio_cap"] = 5;  // the DPPO paper's C
    const TokenDecision held = token_coefficients(make_region(name, parameters), policy);
    EXPECT_EQ(to_vector(free.keep), to_vector(held.keep));
    const std::vector<double> was = to_vector(free.coefficient), now = to_vector(held.coefficient);
    for (size_t i = 0; i < was.size(); ++i)
      EXPECT_NEAR(now[i], std::abs(was[i]) > 7 ? std::copysign(5.0, was[i]) : was[i], 1e-12) << i;
    EXPECT_NEAR(was[2], -8, 1e-12);
    capped += static_cast<int>(std::abs(now[2] + 5) < 1e-12);
  }
  EXPECT_EQ(capped, 13);
}

TEST(RelaxedClip, DoesNotClipRareTokensOnTheRelaxedSide) {
  // Common tokens that rise and fall too far, the same of rare ones, and two that stay inside. alpha is 0.1.
  const LossInputs policy{log_of({0.75, 0.25, 0.09, 0.02, 0.6, 0.045}), log_of({0.5, 0.5, 0.05, 0.05, 0.5, 0.05}),
                          at::tensor({1.0, -1.0, 1.0, -1.0, 1.0, -1.0}, at::kDouble)};
  const std::map<std::string, std::vector<double>> want{{"grpo_clip_higher", {0, 0, 0, 0, 1.2, -0.9}},
                                                        {"grpo_relax_high", {0, 0, 1.8, 0, 1.2, -0.9}},
                                                        {"grpo_relax_low", {0, 0, 0, -0.4, 1.2, -0.9}},
                                                        {"grpo_relax_both", {0, 0, 1.8, -0.4, 1.2, -0.9}}};
  for (const auto& [name, expected] : want) {
    SCOPED_TRACE(name);
    const TokenDecision decision = token_coefficients(make_region(name, Json::object()), policy);
    const std::vector<double> g = to_vector(decision.coefficient), keep = to_vector(decision.keep);
    for (size_t i = 0; i < g.size(); ++i) {
      EXPECT_NEAR(g[i], expected[i], 1e-12) << i;
      EXPECT_EQ(keep[i], expected[i] != 0) << i;
    }
  }
  // Tokens that are not clipped have no threshold.
  EXPECT_EQ(to_vector(token_coefficients(RelaxedClip{.relaxed = Side::kHigh}, policy).threshold),
            (std::vector<double>{0.28, 0.2, kUnlimited, 0.2, 0.28, 0.2}));
  // With alpha 0 it is Clip-Higher, with alpha 1 the surrogate without clipping.
  const auto coefficients = [&](const TrustRegion& region) {
    return to_vector(token_coefficients(region, policy).coefficient);
  };
  EXPECT_EQ(coefficients(RelaxedClip{.alpha = 0}), coefficients(PpoClip{.low = 0.2, .high = 0.28}));
  EXPECT_EQ(coefficients(RelaxedClip{.alpha = 1}), coefficients(PolicyGradient{}));
}

TEST(Cispo, HasNoLowerBoundByDefault) {
  const LossInputs two{log_of({0.5, 0.25}), log_of({0.1, 0.5}), at::tensor({1.0, -1.0}, at::kDouble)};
  const auto g = [&](const Json& parameters) {
    return to_vector(token_coefficients(make_region("cispo", parameters), two).coefficient);
  };
  EXPECT_NEAR(g(Json::object())[0], 1.28, 1e-12);
  EXPECT_NEAR(g(Json::object())[1], -0.5, 1e-12);
  EXPECT_NEAR(g({{"low", 0.2}})[1], -0.8, 1e-12);
}

}  // namespace
}  // namespace keel
