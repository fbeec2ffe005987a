#include "keel/train/start/step_estimate.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(StepEstimate, AnEvaluationTakesAsLongAsARolloutWithEquallyManyCompletions) {
  Config config;
  config.run.device = "cpu";
  config.rollout.max_sequences = 8;  // the same concurrency in both
  config.train.prompts_per_step = 4;
  config.rollout.samples_per_prompt = 2;
  config.eval.samples = 2;
  ModelConfig shape;
  shape.num_hidden_layers = 2;
  shape.hidden_size = 64;
  shape.vocab_size = 100;
  const auto estimate = [&](int64_t held_out) {
    return estimate_step(config, shape, at::kFloat, {}, /*prompt_tokens=*/10, held_out, /*kv_cache=*/1 << 20,
                         {.flops = 1e9, .bytes = 1e9});
  };
  EXPECT_GT(estimate(4).rollout_seconds, 0);
  EXPECT_DOUBLE_EQ(estimate(4).evaluation_seconds, estimate(4).rollout_seconds);
  EXPECT_DOUBLE_EQ(estimate(400).evaluation_seconds, 100 * estimate(4).rollout_seconds);
  EXPECT_EQ(estimate(0).evaluation_seconds, 0);
}

// 6 operations per weight and token, forward and backward; 16 bytes per weight with its gradient and moments.
TEST(StepEstimate, ASupervisedUpdateHasNoSamplerAndCostsThreeForwardPasses) {
  Config config;
  config.run.device = "cpu";
  ModelConfig shape;
  shape.num_hidden_layers = 2;
  shape.hidden_size = 64;
  shape.vocab_size = 100;
  SftSizes rows{
      .mean_rows_per_update = 4, .max_rows_per_update = 4, .mean_tokens_per_row = 1000, .held_out_tokens = 4000};
  const auto estimate = [&] {
    return estimate_sft_step(config, shape, at::kFloat, rows, {.flops = 1e6, .bytes = 1e9});
  };
  const auto weights = static_cast<double>(shape.parameter_count());
  EXPECT_EQ(estimate().weights + estimate().optimizer, 16 * shape.parameter_count());
  EXPECT_EQ(estimate().copies + estimate().kv_cache, 0);
  EXPECT_EQ(estimate().rollout_seconds, 0);
  EXPECT_GE(estimate().update_seconds, 6 * weights * 4000 / 1e6);
  EXPECT_LE(estimate().update_seconds, 2 * 6 * weights * 4000 / 1e6);
  EXPECT_NEAR(estimate().update_seconds, 3 * estimate().evaluation_seconds, 1e-3);
  const StepEstimate whole = estimate();
  rows.mean_rows_per_update = 2;  // the last update is smaller
  EXPECT_NEAR(estimate().update_seconds, whole.update_seconds / 2, 1e-3);
  EXPECT_EQ(estimate().activations, whole.activations);
  rows.mean_rows_per_update = 4;
  config.train.recompute_activations = true;
  EXPECT_NEAR(estimate().update_seconds, whole.update_seconds * 4 / 3, 1e-3);
  EXPECT_LT(estimate().activations, whole.activations);
  config.train.tokens_per_batch = 100;
  EXPECT_LT(estimate().activations, whole.activations / 10);
}

}  // namespace
}  // namespace keel
