#include "keel/train/start/step_estimate.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(StepEstimate, AnEvaluationTakesWhatStepsOfAsManyCompletionsWould) {
  Config config;
  config.run.device = "cpu";
  config.rollout.max_sequences = 8;  // as many together in both
  config.train.prompts_per_step = 4;
  config.rollout.samples_per_prompt = 2;
  config.eval.samples = 2;
  ModelConfig shape;
  shape.num_hidden_layers = 2;
  shape.hidden_size = 64;
  shape.vocab_size = 100;
  const auto estimate = [&](int64_t held_out) {
    return estimate_step(config, shape, at::kFloat, {}, /*prompt_tokens=*/10, held_out, /*keys_and_values=*/1 << 20,
                         {.operations = 1e9, .bytes = 1e9});
  };
  EXPECT_GT(estimate(4).rollout_seconds, 0);
  EXPECT_DOUBLE_EQ(estimate(4).evaluation_seconds, estimate(4).rollout_seconds);
  EXPECT_DOUBLE_EQ(estimate(400).evaluation_seconds, 100 * estimate(4).rollout_seconds);
  EXPECT_EQ(estimate(0).evaluation_seconds, 0);
}

}  // namespace
}  // namespace keel
