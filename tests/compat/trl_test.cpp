// The conversion of TRL 1.16.0 recipes. Expected values are computed by hand from GRPOConfig, grpo_trainer.py,
// SFTConfig, ModelConfig, transformers' TrainingArguments and PEFT's LoraConfig.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "keel/compat/import.h"
#include "keel/compat/recipe.h"
#include "keel/core/json_reader.h"
#include "keel/core/options/read_config.h"
#include "tests/support/errors.h"

namespace keel::compat {
namespace {

using testing::Contains;

constexpr const char* kTrlGrpo = "reward_funcs=think_format_reward num_generations=8 dataset_name=a.jsonl ";
constexpr const char* kTrlSft = "SFTConfig={} dataset_name=a.jsonl ";

/// Imports blank-separated arguments.
Imported trl_import(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return import_recipe(read_recipe("", words));
}

/// A recipe and the expected settings as JSON; null: not set.
struct TrlMeaning {
  const char *words, *settings;
};

void expect_trl_meanings(const std::string& before, const std::vector<TrlMeaning>& meanings) {
  for (const auto& [words, settings] : meanings) {
    SCOPED_TRACE(words);
    const ConfigTree tree = parse_config(trl_import(before + words).yaml, "keel.yaml");
    const Json expected = parse_json(settings);
    for (const auto& [key, value] : expected.items()) {
      const Json* found = find_value(tree, key);
      EXPECT_EQ(found == nullptr ? Json() : *found, value) << key;
    }
  }
}

struct TrlRefused {
  const char *words, *problem;
};

void expect_trl_refused(const std::string& before, const std::vector<TrlRefused>& cases) {
  for (const auto& [words, problem] : cases)
    EXPECT_THAT(error_of(2, [&, &words = words] { trl_import(before + words); }), HasSubstr(problem)) << words;
}

TEST(TrlGrpo, MissingKeysHaveTrlDefaults) {
  expect_trl_meanings(kTrlGrpo, {{"", R"({"objective.method": "dapo", "objective.aggregation": "token_mean",
      "objective.delta_low": 0.2, "objective.delta_high": 0.2, "objective.parameters": null, "objective.advantage": "grpo",
      "objective.advantage_eps": 1e-4, "objective.entropy_coefficient": 0, "reference.kl_coefficient": 0,
      "optimizer.lr": 1e-6, "optimizer.beta2": 0.999, "optimizer.weight_decay": 0, "optimizer.max_grad_norm": 1.0,
      "optimizer.schedule": "linear", "optimizer.warmup_updates": null, "rollout.samples_per_prompt": 8,
      "rollout.max_new_tokens": 512, "rollout.temperature": 1.0, "train.prompts_per_step": 1,
      "train.sequences_per_update": 8, "train.epochs": 1, "train.data_epochs": 3, "train.steps": null,
      "train.shuffle": null, "data.files": ["a.jsonl"], "checkpoint.every": null, "eval.every": null, "lora": null,
      "run.precision": null})"}});
}

TEST(TrlGrpo, LossesSetBoundsAndParameters) {
  expect_trl_meanings(
      kTrlGrpo,
      {{"--loss_type grpo --epsilon 0.1",
        R"({"objective.method": "grpo", "objective.aggregation": "seq_mean_token_mean",
          "objective.delta_low": 0.1, "objective.delta_high": 0.1})"},
       {"--loss_type bnpo --epsilon_high 0.28", R"({"objective.method": "ppo", "objective.aggregation": "token_mean",
          "objective.delta_low": 0.2, "objective.delta_high": 0.28})"},
       {"--loss_type dr_grpo --scale_rewards none",
        R"({"objective.method": "dr_grpo", "objective.advantage": "group_mean",
          "objective.advantage_eps": null, "objective.aggregation": "seq_mean_token_sum_norm"})"},
       {"--loss_type luspo --delta 4", R"({"objective.method": "ppo", "objective.aggregation": "seq_mean_token_sum",
          "objective.parameters": ["dual=4"]})"},
       {"--loss_type cispo --epsilon_high 5.0", R"({"objective.method": "cispo", "objective.delta_low": null,
          "objective.delta_high": 4.0, "objective.parameters": ["low=null"]})"},
       {"--loss_type sapo --sapo_temperature_neg 1.1", R"({"objective.method": "sapo", "objective.delta_low": null,
          "objective.parameters": ["tau_positive=1.0", "tau_negative=1.1"]})"},
       {"--loss_type vespo", R"({"objective.method": "vespo", "objective.parameters": ["k_positive=2.0",
          "lambda_positive=3.0", "k_negative=3.0", "lambda_negative=2.0"]})"},
       {"--importance_sampling_level sequence --loss_type grpo --epsilon 3e-4 --epsilon_high 4e-4",
        R"({"objective.method": "gspo", "objective.delta_low": 3e-4, "objective.delta_high": 4e-4,
          "objective.aggregation": "seq_mean_token_mean"})"},
       {"--beta 0.04 --entropy_coef 0.01 --mask_truncated_completions --num_iterations 2",
        R"({"reference.kl_coefficient": 0.04, "objective.entropy_coefficient": 0.01, "train.mask_truncated": true,
          "train.epochs": 2})"}});
  expect_trl_refused(kTrlGrpo, {{"--loss_type cispo", "cap of the ratio"},
                                {"--loss_type cispo --epsilon_high 0.28", "cap of the ratio"},
                                {"--loss_type sapo --epsilon 0.1", "does not use it"},
                                {"--loss_type grpo --sapo_temperature_pos 2", "does not use it"},
                                {"--delta 1.1", "expected above 1 + epsilon_high"},
                                {"--loss_type sapo --importance_sampling_level sequence", "is not a method"},
                                {"--loss_type sapoo", "expected one of grpo, bnpo"},
                                {"--scale_rewards batch", "expected one of group, true"}});
}

TEST(TrlGrpo, BatchesCountCompletionsOfAllProcesses) {
  expect_trl_meanings(
      kTrlGrpo,
      {{"--per_device_train_batch_size 4 --num_processes 2 --gradient_accumulation_steps 4",
        R"({"train.prompts_per_step": 4, "train.sequences_per_update": 32, "train.shuffle": null})"},
       {"--gradient_accumulation_steps 2 --steps_per_generation 6",
        R"({"train.prompts_per_step": 6, "train.sequences_per_update": 16, "train.shuffle": "rollouts"})"},
       {"--generation_batch_size 64", R"({"train.prompts_per_step": 8, "train.sequences_per_update": 8})"},
       {"--generation_batch_size 64 train.sequences_per_update=16", R"({"train.sequences_per_update": 16})"}});
  expect_trl_refused(kTrlGrpo,
                     {{"--per_device_train_batch_size 4", "expected a multiple of num_generations, 8"},
                      {"--generation_batch_size 12", "expected a multiple of per_device_train_batch_size x"},
                      {"--generation_batch_size 64 --steps_per_generation 4", "steps_per_generation gives 32"},
                      {"--gradient_accumulation_steps 4 --steps_per_generation 6", "expected a divisor of the 6"}});
}

TEST(TrlGrpo, LengthAndIntervalsCountUpdates) {
  const std::string four = std::string(kTrlGrpo) + "--gradient_accumulation_steps 2 --steps_per_generation 8 ";
  expect_trl_meanings(four, {{"--max_steps 12 --save_steps 10",
                              R"({"train.steps": 3, "train.data_epochs": null, "checkpoint.every": 3})"},
                             {"--max_steps 12 --eval_strategy steps --eval_steps 0.5 data.held_out=0.1",
                              R"({"eval.every": 2, "eval.samples": 8})"},
                             {"--eval_strategy steps data.held_out=0.1", R"({"eval.every": 3})"},
                             {"--eval_strategy steps --logging_steps 4 --num_generations_eval 2 data.held_out=0.1",
                              R"({"eval.every": 1, "eval.samples": 2})"},
                             {"--max_steps -1 --num_train_epochs 2 --save_strategy no",
                              R"({"train.data_epochs": 2, "checkpoint.every": 0})"}});
  expect_trl_refused(four, {{"--max_steps 10", "expected a multiple of 4"},
                            {"--save_steps 0.1", "a fraction together with max_steps"},
                            {"--save_strategy sometimes", "expected no, steps or epoch"}});
}

TEST(TrlGrpo, LearningRateFollowsTransformersSchedules) {
  expect_trl_meanings(
      kTrlGrpo, {{"--lr_scheduler_type constant --warmup_steps 5",
                  R"({"optimizer.schedule": "constant", "optimizer.warmup_updates": null})"},
                 {"--lr_scheduler_type constant_with_warmup --warmup_steps 5 --warmup_ratio 0.1",
                  R"({"optimizer.schedule": "constant", "optimizer.warmup_updates": 5})"},
                 {"--warmup_steps 0.1", R"({"optimizer.warmup_updates": 0.1})"},
                 {"--lr_scheduler_type cosine --warmup_ratio 0.1",
                  R"({"optimizer.schedule": "cosine", "optimizer.warmup_updates": 0.1})"},
                 {"--lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs {\"min_lr_rate\":0.1}",
                  R"({"optimizer.schedule": "cosine", "optimizer.min_lr_ratio": 0.1})"},
                 {"--learning_rate 4e-6 --lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs {\"min_lr\":1e-6}",
                  R"({"optimizer.min_lr_ratio": 0.25})"}});
  expect_trl_refused(
      kTrlGrpo, {{"--lr_scheduler_type polynomial", "line: lr_scheduler_type: got \"polynomial\", expected one of"},
                 {"--warmup_ratio 1.0", "warmup_ratio: got 1.0, expected a fraction below 1"},
                 {"--lr_scheduler_type cosine_with_min_lr", "needs a minimum"},
                 {"--lr_scheduler_type cosine --lr_scheduler_kwargs {\"num_cycles\":2}", "half a period"},
                 {"--lr_scheduler_kwargs {\"power\":2}", "ignoring it would change the training"}});
}

TEST(TrlGrpo, AdaptersHaveTheDefaultsOfTheirClass) {
  expect_trl_meanings(
      kTrlGrpo,
      {{"--use_peft",
        R"({"lora.rank": 16, "lora.alpha": 32, "lora.dropout": 0.05, "lora.target_modules": ["q_proj", "v_proj"]})"},
       {"--use_peft --lora_r 4 --lora_target_modules q_proj, o_proj --disable_dropout --use_rslora",
        R"({"lora.rank": 4, "lora.target_modules": ["q_proj", "o_proj"], "lora.dropout": null, "lora.rank_stabilized": true})"},
       {"LoraConfig={}", R"({"lora.rank": 8, "lora.alpha": 8, "lora.dropout": 0})"},
       {"--r 4 --target_modules q_proj", R"({"lora.rank": 4, "lora.alpha": 8, "lora.target_modules": ["q_proj"]})"},
       {"--use_peft False --lora_r 16", R"({"lora": null})"}});
  expect_trl_meanings(kTrlGrpo, {{"--use_peft --lora_target_modules all-linear", R"({"lora.target_modules":
      ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]})"}});
  expect_trl_refused(kTrlGrpo, {{"--lora_r 16", "without use_peft"},
                                {"--use_peft False --r 8", "has a LoraConfig"},
                                {"--use_peft --lora_r 0", "expected at least 1"},
                                {"--use_peft --use_dora", "ignoring it would change the training"},
                                {"--r 8 --bias all", "only plain LoRA adapters"}});
}

TEST(TrlGrpo, OtherKeysAreConverted) {
  expect_trl_meanings(kTrlGrpo,
                      {{"--bf16", R"({"run.precision": "bf16"})"},
                       {"--bf16 False", R"({"run.precision": "float32"})"},
                       {"--dtype bfloat16", R"({"run.precision": "bf16"})"},
                       {"--dtype float32", R"({"run.precision": null})"},
                       {"--reward_weights 2.0", R"({"reward.weights": [2.0]})"},
                       {"--max_grad_norm null", R"({"optimizer.max_grad_norm": 1e9})"},
                       {"--optim adamw_8bit", R"({"optimizer.moments": "8bit"})"},
                       {"--chat_template_kwargs {\"enable_thinking\":\"False\",\"n\":\"007\"}",
                        R"({"data.chat_template_kwargs": ["enable_thinking=false", "n=7"]})"},
                       {"--temperature 0.7", R"({"rollout.temperature": 0.7, "eval.temperature": 0.7})"},
                       {"--reward_funcs accuracy_reward my.module.score --reward_weights 1.0 0.5",
                        R"({"reward.functions": ["math", "python:my/module.py:score"], "reward.weights": [1.0, 0.5]})"},
                       {"--report_to wandb tensorboard", R"({"record.tensorboard": true})"},
                       {"--metric_for_best_model eval_reward --load_best_model_at_end data.held_out=0.1",
                        R"({"checkpoint.best_metric": "eval/reward"})"}});
  expect_trl_refused(kTrlGrpo, {{"--bf16 --fp16", "fp16 is true as well"},
                                {"--dtype int8", "command line: dtype: got \"int8\", expected one of bfloat16"},
                                {"--num_processes 0", "command line: num_processes: got 0, expected an integer from 1"},
                                {"--optim adafactor", "expected one of adamw_torch"},
                                {"--top_p 0.9 --sync_ref_model", "top_p: got 0.9"},
                                {"--top_p 0.9 --sync_ref_model", "sync_ref_model: got true"},
                                {"--max_completion_length null", "(no limit) is not supported"},
                                {"--reward_funcs code", "got code. Fix: add reward.functions"}});
  expect_trl_refused("--num_generations 8 ",
                     {{"--dataset_name trl-lib/tldr", "a data set of the Hub"}, {"--max_steps 4", "is missing"}});
}

TEST(TrlGrpo, HarmlessValuesAreAccepted) {
  const Imported recipe = trl_import(
      std::string(kTrlGrpo) +
      "--top_p 1.0 --top_k 0 --sync_ref_model False --repetition_penalty 1 --use_vllm --push_to_hub --deepspeed null");
  EXPECT_THAT(recipe.ignored_keys, testing::UnorderedElementsAre("push_to_hub", "use_vllm"));
}

TEST(TrlGrpo, KeelSettingsTakePrecedence) {
  expect_trl_meanings(kTrlGrpo,
                      {{"rollout.staleness=1 optimizer.lr=2e-6", R"({"rollout.staleness": 1, "optimizer.lr": 2e-6})"},
                       {"objective.method=dppo_tv objective.delta=0.1 --epsilon 0.3",
                        R"({"objective.method": "dppo_tv", "objective.delta": 0.1, "objective.delta_low": null})"},
                       {"train.steps=5 --max_steps 7", R"({"train.steps": 5, "train.data_epochs": null})"}});
  expect_trl_meanings(
      "", {{"--num_generations 8 --dataset_name trl-lib/tldr data.files=[b.jsonl]", R"({"data.files": ["b.jsonl"]})"}});
}

TEST(TrlSft, KeysBecomeSftSettings) {
  expect_trl_meanings(
      kTrlSft,
      {{"", R"({"sft.files": ["a.jsonl"], "sft.lr": 2e-5, "sft.beta2": 0.999, "sft.schedule": "linear", "sft.batch": 8,
          "sft.data_epochs": 3, "sft.max_tokens": 1024, "sft.loss_on": "completion", "train.steps": 0})"},
       {"--per_device_train_batch_size 2 --gradient_accumulation_steps 8 --num_processes 2 --max_steps 20 "
        "--warmup_steps 2",
        R"({"sft.batch": 32, "sft.steps": 20, "sft.data_epochs": null, "sft.warmup_updates": 2})"},
       {"--assistant_only_loss", R"({"sft.loss_on": "assistant"})"},
       {"--completion_only_loss False --max_length null", R"({"sft.loss_on": "all", "sft.max_tokens": 0})"},
       {"--packing sft.batch=9", R"({"sft.batch": 9})"},
       {"--dataset_text_field story", R"({"sft.text_key": "story"})"},
       {"--use_peft --eval_strategy steps --eval_steps 100 sft.held_out=0.1",
        R"({"lora.rank": 16, "sft.eval_every": 100, "sft.held_out": 0.1})"}});
  expect_trl_meanings("", {{"datasets=[{path:json,data_files:[a.jsonl,b.jsonl]}] --packing False --test_split_size 0.1",
                            R"({"sft.files": ["a.jsonl", "b.jsonl"], "sft.held_out": 0.1})"}});
  EXPECT_TRUE(trl_import(kTrlSft).supervised);
  expect_trl_refused(kTrlSft, {{"--packing", "8 blocks"},
                               {"--assistant_only_loss --completion_only_loss False", "completion_only_loss is false"},
                               {"--optim adafactor", "SFT uses AdamW"},
                               {"--loss_type dft", "negative log-likelihood"},
                               {"--neftune_noise_alpha 5", "ignoring it would change the training"},
                               {"--adam_beta1 0.8", "beta1 of SFT is 0.9"},
                               {"--packng True", "use packing"}});
}

TEST(TrlSft, PublishedRecipesAreConverted) {
  struct Recipe {
    const char *file, *settings;
    std::vector<std::string> words;
  };
  for (const auto& [file, settings, words] : std::vector<Recipe>{
           {"trl_sft_example.yaml", R"({"sft.lr": 1e-4, "sft.schedule": "cosine", "sft.batch": 8})", {"SFTConfig={}"}},
           {"trl_sft_open_r1.yaml",
            R"({"sft.lr": 4e-5, "sft.schedule": "cosine", "sft.min_lr_ratio": 0.1, "sft.batch": 4,
               "sft.warmup_updates": 0.03, "sft.data_epochs": 5, "sft.max_tokens": 512, "run.precision": "bf16"})",
            {}},
           {"trl_sft_completions.json",
            R"({"sft.steps": 3, "sft.schedule": "constant", "sft.warmup_updates": 2,
               "checkpoint.every": 2, "lora.rank": 4, "lora.alpha": 8})",
            {}}}) {
    const Imported recipe = import_recipe(read_recipe(std::string("tests/recipes/") + file, words));
    EXPECT_TRUE(recipe.supervised);
    const ConfigTree tree = parse_config(recipe.yaml, "keel.yaml");
    const Json expected = parse_json(settings);
    for (const auto& [key, value] : expected.items()) {
      ASSERT_NE(find_value(tree, key), nullptr) << file << " " << key;
      EXPECT_EQ(*find_value(tree, key), value) << file << " " << key;
    }
  }
}

TEST(TrlSft, DetectsTheTrainer) {
  EXPECT_FALSE(trl_import("GRPOConfig={} --dataset_name a.jsonl --learning_rate 1e-6").supervised);
  expect_trl_refused("--dataset_name a.jsonl ", {{"--learning_rate 1e-4", "the keys belong to several programs"}});
}

}  // namespace
}  // namespace keel::compat
