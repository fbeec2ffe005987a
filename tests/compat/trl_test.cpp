// The conversion of TRL 1.16.0 recipes. Expected values are computed by hand from GRPOConfig, grpo_trainer.py,
// SFTConfig, ModelConfig, transformers' TrainingArguments and PEFT's LoraConfig.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/core/json_reader.h"
#include "tests/compat/recipe_cases.h"

namespace keel::compat {
namespace {

Imported trl_import(const std::string& line) { return import_recipe(read_recipe("", words_of(line))); }

TEST(Trl, ConvertsOrRejectsTheCasesOfTheFile) { expect_recipe_cases("trl_recipes.json"); }

TEST(TrlGrpo, HarmlessValuesAreAccepted) {
  const Imported recipe = trl_import(
      "reward_funcs=think_format_reward num_generations=8 dataset_name=a.jsonl "
      "--top_p 1.0 --top_k 0 --sync_ref_model False --repetition_penalty 1 --use_vllm --push_to_hub --deepspeed null");
  EXPECT_THAT(recipe.ignored_keys, testing::UnorderedElementsAre("push_to_hub", "use_vllm"));
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
    const Json expected = parse_json(settings);
    for (const auto& [key, value] : expected.items()) EXPECT_EQ(setting(recipe, key), value) << file << " " << key;
  }
}

TEST(Trl, DetectsTheTrainer) {
  EXPECT_TRUE(trl_import("SFTConfig={} dataset_name=a.jsonl").supervised);
  EXPECT_FALSE(trl_import("GRPOConfig={} --dataset_name a.jsonl --learning_rate 1e-6").supervised);
}

}  // namespace
}  // namespace keel::compat
