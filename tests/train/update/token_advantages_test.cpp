#include "keel/train/update/token_advantages.h"

#include <gtest/gtest.h>

#include <cmath>

#include "keel/train/metrics/rollout_metrics.h"
#include "keel/train/update/annotate.h"
#include "tests/support/tensors.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

// Two rewards a = 0 and b = 2e-4: mean 1e-4, standard deviation (n - 1) sqrt(2) 1e-4. With TRL's 1e-4 in the divisor
// the advantage is 1 / (1 + sqrt(2)) = sqrt(2) - 1, with verl's 1e-6 it is 1 / (sqrt(2) + 0.01).
TEST(TokenAdvantages, OfGrpoAreDividedByTheDeviationPlusEps) {
  std::vector<Rollout> rollouts(2);
  for (Rollout& rollout : rollouts) rollout.tokens.append({{1, 2, 3}}, /*are_trained=*/true);
  rollouts[1].reward = 2e-4;
  EXPECT_FLOAT_EQ(compute_advantages("grpo", rollouts, {}, {}, 1e-4).advantages[1][2], std::sqrt(2.0f) - 1);
  EXPECT_FLOAT_EQ(compute_advantages("grpo", rollouts, {}).advantages[1][2], 1 / (std::sqrt(2.0f) + 0.01f));
}

// The second completion has tool tokens 7 and 8 between its sampled tokens 5, 6 and 2; the first has only sampled ones.
TEST(ToolTokens, AreContextAndNeitherTrainedNorCounted) {
  std::vector<Rollout> rollouts(2);
  for (Rollout& rollout : rollouts) rollout.tokens.prompt = prompt_columns({{1, 3, 4}});
  rollouts[0].tokens.append({{5, 6, 7, 8, 2}}, /*are_trained=*/true);
  TokenColumns& mixed = rollouts[1].tokens;
  mixed.append({{5, 6}}, true), mixed.append({{7, 8}}, false), mixed.append({{2}}, true);
  mixed.behavior_logp = {-1, -2, -3};
  EXPECT_EQ(mixed.trained_positions(), (std::vector<int64_t>{0, 1, 4}));
  EXPECT_EQ(compute_rollout_metrics(rollouts, 2).length_mean, (5 + 3) / 2.0);
  const CausalLm model = tiny_model(tiny_config(6, 2, false));
  annotate(rollouts, model, model, nullptr, nullptr, {.recomputed_logp = true}, 1.0, 100);
  const std::vector<float>& all = rollouts[0].tokens.recomputed_logp;
  EXPECT_LT(largest_difference(at::tensor(mixed.recomputed_logp), at::tensor({all[0], all[1], all[4]})), 1e-5);
  const std::vector<std::vector<float>> advantages = compute_advantages("group_mean", rollouts, {}).advantages;
  const std::vector<int64_t> second{1};
  const SelectedRollouts selected = select_rollouts({rollouts, advantages}, second);
  const PackedBatch batch = pack(selected.sequences, 100, at::kCPU).at(0);
  EXPECT_EQ(selected.lengths(), batch.lengths);
  EXPECT_EQ(to_vector(batch.targets), (std::vector<double>{5, 6, 2}));
  const LossInputs known = gather_token_inputs(batch, selected, {}).loss_inputs;
  EXPECT_EQ(to_vector(known.behavior_logp), (std::vector<double>{-1, -2, -3}));
  EXPECT_EQ(known.advantages.size(0), 3);
}

TEST(TokenAdvantages, OfARunUseTheConfiguredEps) {
  Config config = tiny_run("dppo_tv");
  config.objective.advantage = "grpo";
  config.objective.advantage_eps = 0.5;
  TinyTraining run(config, warm_model());
  run.step();
  bool learns = false;
  for (size_t first = 0; first < run.rollouts().size();
       first += static_cast<size_t>(config.rollout.samples_per_prompt)) {
    double mean = 0, squares = 0;
    const auto count = static_cast<double>(config.rollout.samples_per_prompt);
    const size_t end = first + static_cast<size_t>(config.rollout.samples_per_prompt);
    for (size_t i = first; i < end; ++i) mean += run.rollouts()[i].reward / count;
    for (size_t i = first; i < end; ++i) squares += std::pow(run.rollouts()[i].reward - mean, 2);
    for (size_t i = first; i < end; ++i) {
      const double expected = (run.rollouts()[i].reward - mean) / (std::sqrt(squares / (count - 1)) + 0.5);
      EXPECT_NEAR(run.advantages()[i][0], expected, 1e-6);
      learns = learns || expected != 0;
    }
  }
  EXPECT_TRUE(learns);
}

}  // namespace
}  // namespace keel
