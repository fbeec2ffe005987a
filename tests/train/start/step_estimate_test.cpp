#include "keel/train/start/step_estimate.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

/// A model of 2 layers: 64 wide, 4 heads of 16 with 2 of keys and values, 128 in the MLP, 100 tokens.
class StepEstimate : public testing::Test {
 protected:
  StepEstimate() {
    shape_.num_hidden_layers = 2;
    shape_.hidden_size = 64;
    shape_.num_attention_heads = 4;
    shape_.num_key_value_heads = 2;
    shape_.head_dim = 16;
    shape_.intermediate_size = 128;
    shape_.vocab_size = 100;
    config_.rollout.max_sequences = 8;  // the same concurrency in training and evaluations
    config_.rollout.max_new_tokens = 10;
    config_.train.prompts_per_step = 4;
    config_.rollout.samples_per_prompt = 2;
    config_.eval.samples = 2;
  }

  RunSizes sizes(int64_t held_out = 0) const {
    return {config_, shape_, at::kFloat, at::kCPU, {.longest = 20, .mean = 10}, held_out};
  }
  TimeEstimate time(int64_t held_out) const { return estimate_time(sizes(held_out), {}, {.flops = 1e9, .bytes = 1e9}); }
  MemoryEstimate memory() const { return estimate_memory(sizes(), {}); }

  Config config_;
  ModelConfig shape_;
};

TEST_F(StepEstimate, AnEvaluationTakesAsLongAsARolloutWithEquallyManyCompletions) {
  EXPECT_GT(time(4).rollout, 0);
  EXPECT_DOUBLE_EQ(time(4).evaluation, time(4).rollout);
  EXPECT_NEAR(time(400).evaluation, 100 * time(4).rollout, time(4).rollout);
  EXPECT_EQ(time(0).evaluation, 0);
}

// A token keeps 4 x 64 + 3 x 64 + 4 x 32 + 3 x 128 floats in each of 2 layers, and 100 logits. A step has 8 completions
// of 10 tokens after 4 prompts of 10.
TEST_F(StepEstimate, MemoryIsTheLargerOfSamplingAndTrainingNextToTheWeights) {
  const int64_t weights = 4 * shape_.parameter_count();
  EXPECT_EQ(memory().weights, weights);
  EXPECT_EQ(memory().optimizer, 3 * weights);
  EXPECT_EQ(memory().copies, 0);
  EXPECT_EQ(memory().activations, 120 * (4 * 2 * 960 + 4 * 100));
  EXPECT_EQ(memory().sampler, weights + 8 * 4 * 100);  // packed for the CPU
  EXPECT_EQ(memory().kv_cache, plan_rollout(sizes()).kv_cache_bytes);
  EXPECT_EQ(memory().bytes() - memory().persistent_bytes(), memory().activations);
  config_.rollout.max_new_tokens = 8;
  config_.train.tokens_per_batch = 1;
  EXPECT_EQ(memory().bytes() - memory().persistent_bytes(), memory().kv_cache + memory().sampler);
  config_.rollout.staleness = 1;
  EXPECT_EQ(memory().copies, weights);
  EXPECT_EQ(memory().bytes() - memory().persistent_bytes(),
            memory().kv_cache + memory().sampler + memory().activations);
}

TEST_F(StepEstimate, ASequenceLongerThanAMicroBatchHasItsOwn) {
  config_.train.tokens_per_batch = 1;
  EXPECT_EQ(memory().activations, 30 * (4 * 2 * 960 + 4 * 100));
}

// Float32 weights, gradients and two moments of the critic next to those of the adapter.
TEST_F(StepEstimate, ASeparateCriticTrainsAllWeightsAlsoNextToAnAdapter) {
  config_.lora.rank = 4;
  config_.critic.body = "separate";
  const int64_t all = shape_.parameter_count(), adapter = trained_parameters(config_, shape_);
  EXPECT_LT(adapter, all);
  EXPECT_EQ(memory().copies, 4 * all);
  EXPECT_EQ(memory().optimizer, 12 * all + 12 * adapter);
}

TEST_F(StepEstimate, PastPoliciesOfARoundedSamplerHaveMasterWeights) {
  const RunSizes narrow{config_, shape_, at::kBFloat16, at::kCUDA, {.longest = 20, .mean = 10}};
  const int64_t all = shape_.parameter_count();
  config_.rollout.staleness = 2;
  EXPECT_EQ(estimate_memory(narrow, {}).copies, 2 * 2 * all);
  EXPECT_EQ(estimate_memory(narrow, {}).sampler, 8 * 4 * 100);
  config_.rollout.weights = "fp8";
  EXPECT_EQ(estimate_memory(narrow, {}).copies, 2 * 6 * all);
  EXPECT_EQ(estimate_memory(narrow, {}).sampler, 2 * all + 8 * 4 * 100);
}

TEST_F(StepEstimate, AnEvaluationWithLongerPromptsNeedsALargerKvCache) {
  RunSizes run = sizes(4);
  const int64_t before = plan_rollout(run).kv_cache_bytes;
  run.longest_held_out = 500;
  EXPECT_GT(plan_rollout(run).kv_cache_bytes, 4 * before);
}

// 64 floats for each of 8 x 10 tokens and for each of 100 rows of the LM head.
TEST_F(StepEstimate, ExactDistributionsKeepTheHiddenStatesOfAStep) {
  EXPECT_EQ(memory().states, 0);
  const Requirements exact{.hidden_states = true};
  EXPECT_EQ(estimate_memory(sizes(), exact).states, 4 * 64 * (80 + 100));
  config_.rollout.staleness = 2;
  EXPECT_EQ(estimate_memory(sizes(), exact).states, 4 * 64 * (3 * 80 + 100));
  EXPECT_EQ(estimate_memory(sizes(), exact).persistent_bytes() - memory().persistent_bytes(), 4 * 64 * (3 * 80 + 100));
}

// 8 completions of at most 10 tokens after 4 prompts of at most 20: 8 x 1 and 4 x 2 blocks of 16 tokens, each with keys
// and values of 2 heads of 16 floats in 2 layers.
TEST_F(StepEstimate, TheKvCacheHoldsTheLongestPromptOfTheRowsOnce) {
  EXPECT_EQ(plan_rollout(sizes()).kv_cache_bytes, (8 * 1 + 4 * 2) * 16 * 2 * 2 * 16 * 2 * 4);
}

// A token has at most a size and 1,024 ids, or a bitmap of 151,936 / 32 words: 19,000 bytes less 4.
TEST_F(StepEstimate, TheSetsOfTruncatedSamplingAreAtMostBitmapsOfAllTokens) {
  EXPECT_EQ(plan_rollout(sizes()).kept_bytes, 0);
  shape_.vocab_size = 151'936;
  config_.train.prompts_per_step = 64;
  config_.rollout.samples_per_prompt = 16;
  config_.rollout.max_new_tokens = 8192;
  const int64_t tokens = 1024 * 8192;
  config_.rollout.filter = {.top_p = 0.95};
  EXPECT_EQ(plan_rollout(sizes()).kept_bytes, tokens * 18'996);  // 148.4 GiB
  config_.rollout.filter = {.top_k = 20, .top_p = 0.95};
  EXPECT_EQ(plan_rollout(sizes()).kept_bytes, tokens * 84);
  config_.rollout.filter = {.top_k = 2000};
  EXPECT_EQ(plan_rollout(sizes()).kept_bytes, tokens * 18'996);
  config_.rollout.filter = {.min_p = 0.1};
  shape_.vocab_size = 32'000;  // ids take more than a bitmap
  EXPECT_EQ(plan_rollout(sizes()).kept_bytes, tokens * 4100);
}

// 6 operations per weight and token, forward and backward; 16 bytes per weight with its gradient and moments.
TEST_F(StepEstimate, ASupervisedUpdateHasNoSamplerAndCostsThreeForwardPasses) {
  SftSizes rows{
      .mean_rows_per_update = 4, .max_rows_per_update = 4, .mean_tokens_per_row = 1000, .held_out_tokens = 4000};
  const auto with_rows = [&] {
    RunSizes run = sizes();
    run.supervised = rows;
    return run;
  };
  const auto memory = [&] { return estimate_sft_memory(with_rows()); };
  const auto time = [&] { return estimate_sft_time(with_rows(), {.flops = 1e6, .bytes = 1e12}); };
  const auto weights = static_cast<double>(shape_.parameter_count());
  EXPECT_EQ(memory().weights + memory().optimizer, 16 * shape_.parameter_count());
  EXPECT_EQ(memory().copies + memory().kv_cache + memory().sampler, 0);
  EXPECT_EQ(time().rollout, 0);
  EXPECT_GE(time().update, 6 * weights * 4000 / 1e6);
  EXPECT_LE(time().update, 2 * (6 * weights + 3 * 4 * 64 * 2 * 500) * 4000 / 1e6);
  EXPECT_NEAR(time().update, 3 * time().evaluation, 1e-3);
  const double whole = time().update;
  const int64_t activations = memory().activations;
  rows.mean_rows_per_update = 2;  // the last update is smaller
  EXPECT_NEAR(time().update, whole / 2, 1e-3);
  EXPECT_EQ(memory().activations, activations);
  rows.mean_rows_per_update = 4;
  config_.train.recompute_activations = true;
  EXPECT_NEAR(time().update, whole * 4 / 3, 1e-3);
  EXPECT_LT(memory().activations, activations);
  config_.train.tokens_per_batch = 100;
  EXPECT_LT(memory().activations, activations / 10);
}

}  // namespace
}  // namespace keel
