// Sizes and durations in the units of TRL and verl. The numbers are worked out by hand from TRL 1.16.0's
// GRPOConfig.__post_init__, transformers' get_warmup_steps and verl 0.9.1's trainer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/config/loaded_settings.h"

namespace keel {
namespace {

using testing::HasSubstr;
using Settings = std::vector<std::string>;

struct Sizes {
  int64_t prompts, update, updates;
  std::string shuffle;
  bool operator==(const Sizes&) const = default;
};

Sizes sizes_of(const Settings& settings) {
  const Config config = load(settings).config;
  return {config.train.prompts_per_step, config.sequences_per_update(), config.updates_per_step(),
          config.train.shuffle};
}

TEST(ForeignSizes, TrlsBatchesAreThoseOfAllDevices) {
  const std::string device = "per_device_train_batch_size=", accumulation = "gradient_accumulation_steps=",
                    parts = "steps_per_generation=", processes = "num_processes=";
  // 16 x 7 x 16 = 1792 completions, 256 prompts of 7: one update.
  EXPECT_EQ(sizes_of({device + "16", processes + "7", accumulation + "16", "num_generations=7"}),
            (Sizes{256, 1792, 1, "prompts"}));
  // 8 x 8 = 64 completions; updates of 8 x 2 = 16.
  EXPECT_EQ(sizes_of({device + "8", accumulation + "2", parts + "8"}), (Sizes{8, 16, 4, "rollouts"}));
  // 512 completions; updates of 4 x 16 = 64, each used twice.
  EXPECT_EQ(sizes_of({"generation_batch_size=512", device + "4", accumulation + "16", "num_iterations=2"}),
            (Sizes{64, 64, 16, "rollouts"}));
  // TRL writes both down.
  EXPECT_EQ(sizes_of({"generation_batch_size=64", parts + "8"}), (Sizes{8, 8, 8, "rollouts"}));
  EXPECT_EQ(sizes_of({device + "8"}), (Sizes{1, 8, 1, "prompts"}));
  EXPECT_EQ(sizes_of({accumulation + "4"}), (Sizes{4, 32, 1, "prompts"})) << "TRL's batch of a device is 8";
  EXPECT_THAT(refusal_of({"generation_batch_size=128", parts + "8"}),
              testing::AllOf(HasSubstr("generation_batch_size"), HasSubstr("steps_per_generation"),
                             HasSubstr("keep one of the two")));
  EXPECT_THAT(refusal_of({device + "4", accumulation + "128", parts + "16"}),
              testing::AllOf(HasSubstr("gradient_accumulation_steps is 128"), HasSubstr("divisor of 16")));
  EXPECT_THAT(refusal_of({"generation_batch_size=60", device + "8"}), HasSubstr("wanted a multiple of"));
  EXPECT_THAT(refusal_of({device + "3"}), HasSubstr("wanted a multiple of rollout.samples_per_prompt, 8"));
  EXPECT_THAT(refusal_of({device + "many"}), HasSubstr("per_device_train_batch_size"));
}

// Fields of GRPOConfig and of nothing that is trained otherwise; `model` is a name of ours, too.
TEST(ForeignSizes, TheirNamesSayThatAConfigurationIsTrls) {
  for (const char* own : {"num_generations=4", "num_generations_eval=4", "generation_batch_size=16",
                          "steps_per_generation=2", "num_iterations=2", "mask_truncated_completions=true"})
    EXPECT_EQ(load({"model=m", "data.files=[d.jsonl]", "rollout.max_new_tokens=8", own}).config.objective.method,
              "dapo")
        << own;
}

TEST(ForeignSizes, TrlCountsUpdates) {
  const Settings four = {"per_device_train_batch_size=8", "gradient_accumulation_steps=2", "steps_per_generation=8"};
  const auto with = [&](Settings more) {
    more.insert(more.end(), four.begin(), four.end());
    return more;
  };
  EXPECT_EQ(load(with({"max_steps=40"})).config.train.steps, 10);
  EXPECT_EQ(load(with({"max_steps=-1"})).config.train.steps, 100) << "left to the passes over the data";
  EXPECT_THAT(refusal_of(with({"max_steps=42"})), HasSubstr("wanted a multiple of 4"));
  EXPECT_EQ(load(with({"save_steps=10"})).config.checkpoint.every, 3);
  EXPECT_EQ(load(with({"save_steps=10", "save_strategy=epoch"})).config.checkpoint.every, 100);
  EXPECT_EQ(load(with({"save_strategy=no"})).config.checkpoint.every, 0);
  EXPECT_EQ(load(with({"eval_steps=8"})).config.eval.every, 0) << "eval_strategy is no where nothing is said";
  for (const std::string name : {"eval_strategy", "evaluation_strategy"})
    EXPECT_EQ(load(with({"eval_steps=8", name + "=steps"})).config.eval.every, 2);
  // TrainingArguments.__post_init__: without eval_steps it is logging_steps, 10 in GRPOConfig; below 1 a share.
  EXPECT_EQ(load(with({"eval_strategy=steps", "logging_steps=8"})).config.eval.every, 2);
  EXPECT_EQ(load(with({"eval_strategy=steps"})).config.eval.every, 3);
  EXPECT_EQ(load(with({"eval_strategy=steps", "eval_steps=0.1", "max_steps=80"})).config.eval.every, 2);
  EXPECT_THAT(refusal_of(with({"eval_strategy=steps", "eval_steps=0.1"})), HasSubstr("max_steps"));
  EXPECT_EQ(load(with({"num_train_epochs=3", "max_steps=40"})).config.train.steps, 10);
  EXPECT_EQ(load(with({"num_train_epochs=3", "train.steps=7", "loss_type=grpo"})).config.train.steps, 7);
  EXPECT_THAT(refusal_of(with({"num_train_epochs=3"})), HasSubstr("train.data_epochs is 3, but the problems"));
}

// transformers: constant has no warm-up, whatever warmup_steps is; the ratio is of all updates, rounded up.
TEST(ForeignSizes, WarmUps) {
  const auto updates = [](Settings settings) {
    settings.push_back("objective.method=grpo");
    return load(settings).config.optimizer.warmup_updates;
  };
  EXPECT_EQ(updates({"warmup_steps=5"}), 5);
  EXPECT_EQ(updates({"warmup_steps=5", "lr_scheduler_type=constant"}), 0);
  EXPECT_EQ(updates({"warmup_steps=7", "warmup_ratio=0.1", "max_steps=45"}), 7);
  const std::string optim = "actor_rollout_ref.actor.optim.", mini = "actor_rollout_ref.actor.ppo_mini_batch_size=4";
  EXPECT_EQ(updates({optim + "lr_warmup_steps=10", mini}), 40) << "16 prompts of a step make 4 updates";
  EXPECT_EQ(updates({optim + "lr_warmup_steps=-1"}), 0);
  const auto share = [](Settings settings) {
    settings.push_back("objective.method=grpo");
    return load(settings).config.optimizer.warmup_ratio;
  };
  EXPECT_EQ(share({"warmup_ratio=0.1", "max_steps=45", "lr_scheduler_type=constant_with_warmup"}), 0.1);
  EXPECT_EQ(share({"warmup_steps=0.1", "max_steps=45"}), 0.1);
  EXPECT_EQ(share({optim + "lr_warmup_steps_ratio=0.05", "trainer.total_training_steps=100", mini}), 0.05);
}

TEST(ForeignSizes, WhatSaysALimitAgainMustBeTheSame) {
  const Settings verl = {"algorithm.adv_estimator=grpo", "data.max_response_length=64", "data.max_prompt_length=32",
                         "data.train_files=a.jsonl"};
  const auto with = [&](const std::string& setting) {
    Settings settings = verl;
    settings.push_back(setting);
    return settings;
  };
  for (const std::string name : {"reward_model.reward_kwargs.max_resp_len", "reward.reward_kwargs.max_resp_len",
                                 "actor_rollout_ref.rollout.response_length"}) {
    EXPECT_EQ(load(with(name + "=64")).config.rollout.max_new_tokens, 64);
    EXPECT_THAT(refusal_of(with(name + "=65")), HasSubstr("rollout.max_new_tokens is 64"));
  }
  EXPECT_NO_THROW(load(with("actor_rollout_ref.rollout.prompt_length=32")));
  EXPECT_THAT(refusal_of(with("actor_rollout_ref.rollout.prompt_length=64")),
              HasSubstr("data.max_prompt_tokens is 32"));
  EXPECT_EQ(load(with("data.val_max_samples=50")).config.eval.prompts, 50);
  EXPECT_EQ(load(with("actor_rollout_ref.rollout.val_kwargs.top_k=-1")).config.eval.top_k, 0);
  EXPECT_EQ(load(with("actor_rollout_ref.rollout.val_kwargs.top_k=40")).config.eval.top_k, 40);
}

}  // namespace
}  // namespace keel
