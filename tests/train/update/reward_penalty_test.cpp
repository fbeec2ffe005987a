#include "keel/train/update/token_advantages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_training.h"

namespace keel {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::FloatNear;

Rollout annotated(int64_t prompt, double reward, std::vector<float> logp, std::vector<float> reference,
                  std::vector<float> values) {
  Rollout result;
  result.prompt = prompt;
  result.reward = reward;
  result.tokens.append(std::vector<int32_t>(logp.size()), /*are_trained=*/true);
  result.tokens.recomputed_logp = std::move(logp);
  result.tokens.reference_logp = std::move(reference);
  result.tokens.values = std::move(values);
  return result;
}

const std::vector<Rollout> kRollouts{
    annotated(0, 1, {-1, -2, -0.25}, {-1.5, -1, -0.25}, {0.5, 0.6, 0.8}), annotated(0, 0, {-0.5}, {-2.5}, {0.4}),
    annotated(1, 2, {-0.75, -1.5}, {-0.5, -2.25}, {0.3, 0.1}), annotated(1, 1, {-3}, {-1}, {0.2})};

// Below: verl 0.9.1, trainer/ppo/core_algos.py and apply_kl_penalty of ray_trainer.py, run in float64 on these
// rollouts.

TEST(RewardPenalty, IsTheCoefficientTimesTheKlOfEachTokenBeforeTheUpdates) {
  const auto of = [](KlEstimator estimator) {
    return reward_penalty({.coefficient = 0.1, .estimator = estimator}, kRollouts).value();
  };
  const RewardPenalty k1 = of(KlEstimator::kK1), k2 = of(KlEstimator::kK2), k3 = of(KlEstimator::kK3);
  const auto near = [](double x) { return DoubleNear(x, 1e-12); };
  EXPECT_THAT(k1.tokens, ElementsAre(ElementsAre(near(0.05), near(-0.1), near(0)), ElementsAre(near(0.2)),
                                     ElementsAre(near(-0.025), near(0.075)), ElementsAre(near(-0.2))));
  EXPECT_THAT(k2.tokens[0], ElementsAre(near(0.0125), near(0.05), near(0)));
  EXPECT_THAT(k3.tokens[0], ElementsAre(near(0.010653065971263342), near(0.07182818284590451), near(0)));
  EXPECT_NEAR(k1.kl, 0.02083333333333333, 1e-12);
  EXPECT_NEAR(k2.kl, 1.0911458333333333, 1e-12);
  EXPECT_NEAR(k3.kl, 1.4818812, 1e-7);
  EXPECT_EQ(k1.coefficient, 0.1);
  EXPECT_FALSE(reward_penalty({.coefficient = 0}, kRollouts));
  EXPECT_FALSE(reward_penalty({.coefficient = 0.1}, {}));
}

TEST(RewardPenalty, ChangesAdvantagesAsInVerl) {
  const RewardPenalty penalty = reward_penalty({.coefficient = 0.1}, kRollouts).value();
  const auto computed = [&](const char* advantage) {
    const CriticOptions critic{.body = "separate", .gamma = 0.9, .lambda = 0.5};
    return compute_advantages(advantage, kRollouts, critic, penalty.tokens);
  };
  const auto near = [](double x) { return FloatNear(static_cast<float>(x), 1e-6f); };
  const TokenAdvantages gae = computed("gae");
  EXPECT_THAT(gae.advantages,
              ElementsAre(ElementsAre(near(-0.485407930), near(-0.248995510), near(-0.393069561)),
                          ElementsAre(near(-1.440880842)), ElementsAre(near(0.178315028), near(1.735297103)),
                          ElementsAre(near(0.654741719))));
  EXPECT_THAT(gae.returns, ElementsAre(ElementsAre(near(0.6295), near(0.91), near(1)), ElementsAre(near(-0.2)),
                                       ElementsAre(near(0.93625), near(1.925)), ElementsAre(near(1.2))));
  const TokenAdvantages reinforce = computed("reinforce_pp");
  EXPECT_THAT(reinforce.advantages,
              ElementsAre(ElementsAre(near(-0.134141444), near(-0.064586620), near(-0.203696268)),
                          ElementsAre(near(-1.873012046)), ElementsAre(near(1.117845389), near(1.083067977)),
                          ElementsAre(near(0.074523028))));
  EXPECT_TRUE(reinforce.returns.empty());
  // With groups, the sums over tokens: 1.05 and -0.2, 1.95 and 1.2.
  EXPECT_THAT(computed("group_mean").advantages,
              ElementsAre(ElementsAre(near(0.625), near(0.625), near(0.625)), ElementsAre(near(-0.625)),
                          ElementsAre(near(0.375), near(0.375)), ElementsAre(near(-0.375))));
  EXPECT_THAT(computed("grpo").advantages[2], ElementsAre(near(0.707105448), near(0.707105448)));
}

TEST(RewardPenalty, AdaptsItsCoefficientAsInVerl) {
  RewardKlPenalty kl{.coefficient = 0.05, .target = 0.1};
  for (const auto& [observed, next] :
       {std::pair{0.3, 0.050024000000000006}, {0.095, 0.050017997120000005}, {-0.4, 0.0499939884813824}}) {
    kl.coefficient = next_kl_coefficient(kl, observed, 24);
    EXPECT_NEAR(kl.coefficient, next, 1e-15);
  }
  EXPECT_EQ(next_kl_coefficient(kl, NAN, 24), kl.coefficient);  // an overflow changes nothing
  kl.target = std::nullopt;
  EXPECT_EQ(next_kl_coefficient(kl, 5, 24), kl.coefficient);
}

TEST(RewardPenalty, IsSubtractedFromTheRewardsAndItsCoefficientIsSaved) {
  for (const char* method : {"dppo_tv", "ppo_gae"}) {
    SCOPED_TRACE(method);
    Config config = tiny_run(method);
    config.reference.kl_in_reward = 0.5;
    config.reference.kl_in_reward_target = 0.01;
    config.reference.kl_in_reward_horizon = 40;
    TinyTraining run(config, warm_model());
    const StepMetrics first = run.step();
    EXPECT_EQ(first.reward_kl->coefficient, 0.5);
    EXPECT_NEAR(first.reward_kl->kl, 0, 1e-6);  // the policy still equals the reference
    // 12 completions; the KL is far below its target.
    EXPECT_NEAR(run.state().rl.kl_coefficient.value(), 0.5 * (1 - 0.2 * 12 / 40), 1e-9);
    const StepMetrics second = run.step();
    EXPECT_EQ(second.reward_kl->coefficient, 0.5 * (1 - 0.2 * 12 / 40));
    EXPECT_NE(second.reward_kl->kl, 0);
    EXPECT_EQ(run.objective().reward_kl.coefficient, run.state().rl.kl_coefficient);
    const RewardKlPenalty used{.coefficient = second.reward_kl->coefficient};
    const TokenAdvantages expected = compute_advantages(run.objective().method.advantage, run.rollouts(), config.critic,
                                                        reward_penalty(used, run.rollouts())->tokens);
    EXPECT_EQ(run.advantages(), expected.advantages);
    EXPECT_NE(run.advantages(),
              compute_advantages(run.objective().method.advantage, run.rollouts(), config.critic).advantages);
    const Json row = metrics_row(second);
    EXPECT_EQ(row.at("reward/kl_coefficient"), second.reward_kl->coefficient);
    EXPECT_EQ(row.at("reward/kl"), second.reward_kl->kl);
  }
}

}  // namespace
}  // namespace keel
