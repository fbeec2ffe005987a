#include "keel/train/update/policy_update.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/effort.h"
#include "tests/support/tensors.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

struct Update {
  Tensor gradient;            // of all parameters, concatenated
  Tensor keep, coefficients;  // of every token, in rollout order
};

Update update_of(const TinyTraining& run, int64_t tokens_per_batch) {
  std::vector<Tensor> keep, coefficients, gradient;
  for (const auto& [name, value] : run.gradients(tokens_per_batch, [&](const TokenUpdate& tokens) {
         keep.push_back(tokens.decision.keep);
         coefficients.push_back(tokens.decision.coefficient);
       }))
    gradient.push_back(value.flatten());
  return {at::cat(gradient), at::cat(keep), at::cat(coefficients)};
}

/// Token, sequence and batch scope: tokens of a group or an update span several batches, those of a sequence do not.
TEST(PolicyUpdate, HasTheSameGradientForAnyMicroBatches) {
  int masked = 0;
  for (const Method& row : methods()) {
    SCOPED_TRACE(row.name);
    Config config = tiny_run(row.name);
    config.reference.kl_coefficient = 0.01;
    config.objective.entropy_coefficient = 0.01;
    config.train.epochs = 3;
    TinyTraining run(config, warm_model());
    int updates = 0;
    run.when_updating = [&] {
      if (++updates < 3) return;  // far enough from the sampler to block tokens
      const Update whole = update_of(run, 100000);
      masked += whole.keep.all().item<bool>() ? 0 : 1;
      if (requirements(row.region).scope == Scope::kBatch) {
        EXPECT_FALSE(whole.keep.all().item<bool>()) << "nothing was decided about the update as a whole";
      }
      for (const int64_t tokens_per_batch : count(std::vector{30}, std::vector{1, 30, 60})) {
        const Update cut = update_of(run, tokens_per_batch);
        EXPECT_TRUE(at::equal(cut.keep, whole.keep)) << tokens_per_batch;
        EXPECT_LT(relative_difference(cut.coefficients, whole.coefficients), 1e-4) << tokens_per_batch;
        EXPECT_LT(relative_difference(cut.gradient, whole.gradient), 1e-5) << tokens_per_batch;
      }
    };
    run.step();
    EXPECT_EQ(updates, 3);
  }
  EXPECT_GT(masked, 20);
}

TEST(PolicyUpdate, AppliesTheReferenceKlToBlockedTokens) {
  Config config = tiny_run("dppo_tv");
  config.objective.delta = 1e-6;  // blocks nearly everything
  config.reference.kl_coefficient = 0.5;
  config.reference.estimator = "k2";
  config.train.tokens_per_batch = 1000;
  TinyTraining run(config, warm_model());
  int64_t blocked = 0, seen = 0;
  run.when_decided = [&](const TokenUpdate& tokens) {
    if (++seen < 2) return;  // the first update is on-policy
    std::vector<float> reference;
    for (const Rollout& rollout : run.rollouts())
      reference.insert(reference.end(), rollout.tokens.reference_logp.begin(), rollout.tokens.reference_logp.end());
    const Tensor d = tokens.loss_inputs.logp - at::tensor(reference), held = tokens.decision.keep.logical_not();
    blocked += held.sum().item<int64_t>();
    // Only the k2 term -beta d, without the method's coefficient.
    EXPECT_LT(largest_difference(tokens.decision.coefficient.masked_select(held), d.masked_select(held) * -0.5), 1e-6);
    EXPECT_LT(largest_difference(tokens.reference_kl, d * d / 2), 1e-6);
  };
  run.step();
  EXPECT_EQ(seen, 2);
  EXPECT_GT(blocked, 10);
}

/// The same scopes: clamps pi/mu of three tokens, and with a reference ref/pi of two.
TEST(PolicyUpdate, CountsEachClampOnceForAnyMicroBatches) {
  for (const char* method : {"pg", "dppo_tv", "vespo", "tvpo"}) {
    for (const double kl_coefficient : {0.0, 0.01}) {
      Config config = tiny_run(method);
      config.reference.kl_coefficient = kl_coefficient;
      config.optimizer.lr = 0;  // the policy stays the sampler's
      TinyTraining run(config, warm_model());
      run.step();
      std::vector<Rollout> rollouts = run.rollouts();
      for (const size_t far : {0, 5, 11}) rollouts[far].tokens.behavior_logp[0] = -80;
      for (const size_t far : {3, 5})
        if (kl_coefficient > 0) rollouts[far].tokens.reference_logp[0] = -80;
      for (const int64_t tokens_per_batch : {1, 60, 100000}) {
        int64_t clamped = 0;
        accumulate_policy_gradients(
            run.model(), run.objective(), {.temperature = run.temperature()}, tokens_per_batch,
            {rollouts, run.advantages(), run.old().head().value()}, run.all_rollouts(),
            [&](const TokenUpdate& tokens) { clamped += tokens.decision.clamped.item<int64_t>(); });
        EXPECT_EQ(clamped, (std::string(method) == "pg" ? 0 : 3) + (kl_coefficient > 0 ? 2 : 0))
            << method << " " << tokens_per_batch;
      }
    }
  }
}

TEST(TokenInputs, KeepTheirMask) {
  TokenInputs known;
  known.loss_inputs.behavior_logp = at::zeros({3});
  known.loss_inputs.mask = at::tensor({1, 0, 1}).to(at::kBool);
  const LossInputs last = add_statistics(known, {.logp = at::zeros({2}), .entropy = {}}, {}, /*begin=*/1);
  EXPECT_TRUE(at::equal(last.mask, known.loss_inputs.mask.narrow(0, 1, 2)));
}

}  // namespace
}  // namespace keel
