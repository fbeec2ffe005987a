#include "keel/train/update/critic_training.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "keel/objective/advantage.h"
#include "keel/train/health.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

Rollout make_rollout(double reward, std::vector<float> values, int64_t prompt = 0) {
  Rollout rollout;
  rollout.prompt = prompt;
  rollout.tokens.append(std::vector<int32_t>(values.size()), /*are_trained=*/true);
  rollout.tokens.values = std::move(values);
  rollout.reward = reward;
  return rollout;
}

/// TD errors from the end: 1 - 0.8, 0.8 - 0.6, 0.6 - 0.5, each plus half of the next advantage; and 0 - 0.4.
TEST(TokenAdvantages, OfGaeEqualAHandComputedExample) {
  const std::vector<Rollout> rollouts{make_rollout(1, {0.5, 0.6, 0.8}), make_rollout(0, {0.4})};
  const CriticOptions options{.body = "separate", .lambda = 0.5};
  const TokenAdvantages whitened = compute_advantages("gae", rollouts, options);
  EXPECT_THAT(whitened.returns,
              ElementsAre(ElementsAre(FloatNear(0.75, 1e-6), FloatNear(0.9, 1e-6), FloatNear(1, 1e-6)),
                          ElementsAre(FloatNear(0, 1e-6))));
  // The advantages 0.25, 0.3, 0.2 and -0.4, whitened: mean 0.0875; squares 0.02640625, 0.04515625, 0.01265625,
  // 0.23765625 sum to 0.321875, / 3 = 0.10729167, root 0.32755407. Returns stay as they are.
  EXPECT_THAT(whitened.advantages,
              ElementsAre(ElementsAre(FloatNear(0.496101, 1e-5), FloatNear(0.648748, 1e-5), FloatNear(0.343454, 1e-5)),
                          ElementsAre(FloatNear(-1.488304, 1e-5))));
}

TEST(TokenAdvantages, OfAGroupAreEqualForAllTokensAndHaveNoReturns) {
  const std::vector<Rollout> rollouts{make_rollout(1, {0, 0, 0}), make_rollout(0, {0})};
  const TokenAdvantages computed = compute_advantages("group_mean", rollouts, {});
  EXPECT_THAT(computed.advantages, ElementsAre(ElementsAre(0.5f, 0.5f, 0.5f), ElementsAre(-0.5f)));
  EXPECT_TRUE(computed.returns.empty());
}

TEST(TokenAdvantages, HaveTheExplainedVarianceOfTheValues) {
  // lambda 1: the returns are the rewards, 1 1 0 0, mean 0.5, variance 0.25. Values 0.75 0.75 0.25 0.25 leave errors of
  // variance 0.0625: the explained variance is 3/4.
  const std::vector<Rollout> rollouts{make_rollout(1, {0.75, 0.75}), make_rollout(0, {0.25, 0.25})};
  const CriticOptions options{.body = "separate", .lambda = 1};
  const std::optional<ValueMetrics> metrics =
      compute_value_metrics(rollouts, compute_advantages("gae", rollouts, options));
  ASSERT_TRUE(metrics);
  EXPECT_NEAR(metrics->explained_variance.value(), 0.75, 1e-6);
  EXPECT_NEAR(metrics->value_mean, 0.5, 1e-6);
  EXPECT_NEAR(metrics->return_mean, 0.5, 1e-6);
  const std::vector<Rollout> flat{make_rollout(1, {0.5}), make_rollout(1, {0.5})};
  const std::optional<ValueMetrics> equal = compute_value_metrics(flat, compute_advantages("gae", flat, options));
  ASSERT_TRUE(equal);
  EXPECT_FALSE(equal->explained_variance);  // the returns have no variance
  EXPECT_FALSE(compute_value_metrics(flat, compute_advantages("grpo", flat, {})));
}

Config critic_config(const std::string& body) {
  Config config = tiny_run("ppo_gae");
  config.critic.body = body;
  config.critic.lr = 1e-2;
  return config;
}

/// Random head weights, because a new head has only zeros.
void randomize_head(const Critic& critic, double size, uint64_t seed) {
  for (const auto& [name, weight] : critic.head.weights())
    weight.value().add_(random_normal(weight.shape(), ++seed), size);
}

/// The value loss by autograd through a reference network in float64.
Gradients autograd_value_gradients(const TinyTraining& run, double clip) {
  const Critic& critic = run.critic();
  const ModelWeights weights = critic.body_or(run.model()).weights();
  const ReferenceModel body(weights);
  const Tensor weight = critic.head.weights()[0].weight.value().to(at::kDouble).requires_grad_();
  const Tensor bias = critic.head.weights()[1].weight.value().to(at::kDouble).requires_grad_();
  std::vector<Tensor> losses;
  int64_t clipped = 0;
  for (size_t i = 0; i < run.rollouts().size(); ++i) {
    const Rollout& rollout = run.rollouts()[i];
    const std::vector<int32_t>& prompt = run.prompts()[rollout.prompt].tokens;
    const int64_t length = static_cast<int64_t>(rollout.tokens.size());
    std::vector<int64_t> text(prompt.begin(), prompt.end());
    text.insert(text.end(), rollout.tokens.ids.begin(), rollout.tokens.ids.end());
    const Tensor states = body.hidden(text).narrow(0, static_cast<int64_t>(prompt.size()) - 1, length);
    const Tensor values = states.matmul(weight.t()).squeeze(1) + bias;
    const Tensor old = at::tensor(rollout.tokens.values).to(at::kDouble);
    const Tensor returns = at::tensor(run.experience().token_advantages.returns[i]).to(at::kDouble);
    const Tensor bounded = at::minimum(at::maximum(values, old - clip), old + clip);
    losses.push_back(at::maximum((values - returns).square(), (bounded - returns).square()) / 2);
    clipped += ((values - old).abs() > clip).sum().item<int64_t>();
  }
  EXPECT_GT(clipped, 3);
  at::cat(losses).mean().backward();
  Gradients result{{"score.weight", weight.grad()}, {"score.bias", bias.grad()}};
  for (const NamedWeight& trained : weights.network())
    if (trained.name != "lm_head.weight") result[trained.name] = body.at(trained.name).grad();
  return result;
}

/// Before the first update of a step, changes the critic so that some values move beyond the clip. `check` gets a
/// separate CriticTraining with copies of the weights. Also compares the gradients of the step itself with autograd.
void check_perturbed_step(const Config& config,
                          const std::function<void(TinyTraining&, CriticTraining&, const Gradients&)>& check) {
  TinyTraining run(config, warm_model());
  Gradients want;
  randomize_head(run.critic(), 0.2, 1);
  run.when_ready = [&] {
    randomize_head(run.critic(), 0.1, 7);
    want = autograd_value_gradients(run, *config.critic.value_clip);
    const Critic critic = run.critic().with_replaced([](const Weight& weight) { return weight.value().clone(); });
    CriticTraining training(critic, MasterWeights(critic.weights()), config.critic,
                            critic_optimizer_options(config.critic, config.optimizer));
    check(run, training, want);
    clear_gradients(run.model().trainable());
  };
  int updates = 0;
  run.when_updating = [&] {
    if (updates++ > 0) return;
    for (const auto& [name, gradient] : gradients_of(run.critic().weights()))
      EXPECT_LT(relative_difference(gradient, want.at(name)), 1e-4) << name;
  };
  run.step();
  EXPECT_EQ(updates, 2);
}

TEST(CriticTraining, OfASeparateBodyEqualsAutogradForAnyMicroBatches) {
  Config config = critic_config("separate");
  config.critic.value_clip = 0.1;
  check_perturbed_step(config, [](TinyTraining& run, CriticTraining& training, const Gradients& want) {
    for (const int64_t tokens_per_batch : {1, 30, 60, 100000}) {
      clear_gradients(training.critic().weights());
      training.accumulate_gradients(run.experience().scored(), run.all_rollouts(), tokens_per_batch);
      for (const auto& [name, gradient] : gradients_of(training.critic().weights()))
        EXPECT_LT(relative_difference(gradient, want.at(name)), 1e-4) << name << ", " << tokens_per_batch;
    }
  });
}

TEST(CriticTraining, OfASharedBodyAddsItsWeightedGradientToThePolicys) {
  Config config = critic_config("shared");
  config.critic.value_clip = 0.1;
  check_perturbed_step(config, [](TinyTraining& run, CriticTraining& training, const Gradients& value) {
    const auto no_observer = [](const TokenUpdate&) {};
    const Gradients policy = run.gradients(100000, no_observer);
    for (const int64_t tokens_per_batch : {1, 60, 100000}) {
      clear_gradients(training.critic().weights());
      const ScoredRollouts scored = run.experience().scored();
      const Gradients both =
          run.gradients(tokens_per_batch, no_observer, training.shared_loss(scored, run.all_rollouts()));
      for (const auto& [name, gradient] : both) {
        const bool lm_head = name == "lm_head.weight";
        const Tensor want = lm_head ? policy.at(name) : policy.at(name) + 0.1 * value.at(name);
        EXPECT_LT(relative_difference(gradient, want), 1e-4) << name << ", " << tokens_per_batch;
      }
      for (const auto& [name, gradient] :
           gradients_of(training.critic().weights()))  // the head's gradient is not weighted
        EXPECT_LT(relative_difference(gradient, value.at(name)), 1e-4) << name;
    }
  });
}

/// Values start at 0, so the advantage n tokens before the end is (gamma lambda)^n R, whitened.
TEST(CriticTraining, GivesTheTrainerPerTokenAdvantagesFromItsValues) {
  for (const char* body : {"shared", "separate"}) {
    SCOPED_TRACE(body);
    Config config = critic_config(body);
    config.critic.gamma = 0.9;
    config.critic.lambda = 0.8;
    TinyTraining run(config, warm_model());
    const StepMetrics& metrics = run.step();
    std::vector<double> expected, found;
    for (size_t i = 0; i < run.rollouts().size(); ++i) {
      const Rollout& rollout = run.rollouts()[i];
      const size_t length = rollout.tokens.size();
      for (size_t t = 0; t < length; ++t) expected.push_back(rollout.reward * std::pow(0.72, length - 1 - t));
      found.insert(found.end(), run.advantages()[i].begin(), run.advantages()[i].end());
      EXPECT_THAT(rollout.tokens.values, testing::Each(0.0f));
    }
    EXPECT_GT(*std::ranges::max_element(expected), 0);
    whiten(expected, std::vector<uint8_t>(expected.size(), 1));
    EXPECT_THAT(found, testing::Pointwise(testing::DoubleNear(1e-6), expected));
    ASSERT_TRUE(metrics.values && metrics.critic);
    EXPECT_NEAR(metrics.values->explained_variance.value(), 0, 1e-12);
    EXPECT_EQ(metrics.values->value_mean, 0.0);
    EXPECT_EQ(metrics.critic->lr, 1e-2);
    EXPECT_GT(metrics.critic->loss, 0);
    EXPECT_GT(metrics.critic->gradients.value().mean, 0);
    EXPECT_GE(metrics.critic->clipped, 0);
  }
}

std::vector<Tensor> copies(const std::vector<NamedWeight>& weights) {
  std::vector<Tensor> result;
  for (const NamedWeight& weight : weights) result.push_back(weight.weight.value().clone());
  return result;
}

bool all_equal(const std::vector<Tensor>& before, const std::vector<NamedWeight>& now) {
  for (size_t i = 0; i < before.size(); ++i)
    if (!at::equal(before[i], now[i].weight.value())) return false;
  return true;
}

TEST(CriticTraining, UpdatesOnlyTheCriticDuringItsWarmUp) {
  for (const char* body : {"shared", "separate"}) {
    SCOPED_TRACE(body);
    Config config = critic_config(body);
    config.critic.warmup_steps = 1;
    TinyTraining run(config, warm_model());
    const std::vector<Tensor> policy = copies(run.model().network()), critic = copies(run.critic().weights());
    const StepMetrics& waiting = run.step();
    EXPECT_TRUE(all_equal(policy, run.model().network()));
    EXPECT_FALSE(all_equal(critic, run.critic().weights()));
    EXPECT_FALSE(waiting.lr);
    EXPECT_TRUE(waiting.tokens);
    EXPECT_TRUE(run.step().lr);
    EXPECT_FALSE(all_equal(policy, run.model().network()));
  }
}

TEST(CriticTraining, WithNanWeightsSkipsUpdatesUntilTheRunStops) {
  TinyTraining run(critic_config("separate"));
  run.critic().head.weights()[1].weight.value().fill_(std::nan(""));
  EXPECT_EQ(run.step().skipped_updates, 2);
  EXPECT_EQ(run.state().skipped_in_a_row, 2);
  TrainState state = run.state();
  state.skipped_in_a_row = kMaxSkippedUpdates;
  check_skipped_updates(state, run.config());
  ++state.skipped_in_a_row;
  EXPECT_THAT(error_of(4, [&] { check_skipped_updates(state, run.config()); }), HasSubstr("critic.lr"));
}

}  // namespace
}  // namespace keel
