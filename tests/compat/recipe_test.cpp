// Reading recipes: arguments of both programs, files, references, and rejected input.

#include "keel/compat/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "keel/compat/import.h"
#include "keel/core/json_reader.h"
#include "tests/compat/recipe_cases.h"
#include "tests/support/errors.h"
#include "tests/support/test_folder.h"

namespace keel::compat {
namespace {

using Words = std::vector<std::string>;

std::string refusal(const std::string& file, const Words& words = {}) {
  return error_of(2, [&] { import_recipe(read_recipe(file, words)); });
}

TEST(Recipe, VerlArgumentsFollowTheHydraGrammar) {
  struct Case {
    Words words;
    const char* tree;
  };
  for (const auto& [words, tree] :
       std::vector<Case>{{{"a.b=1", "+a.c=1_000", "++a.d=1e-3"}, R"({"a": {"b": 1, "c": 1000, "d": 0.001}})"},
                         {{"a=[x, 'y, z', \"q\"]", "b={c: [1,2], 'd': null}"},
                          R"({"a": ["x", "y, z", "q"], "b": {"c": [1, 2], "d": null}})"},
                         {{"a=True", "b=NULL", "c=", "d=007", "e=a b ", "f=x\\,y"},
                          R"({"a": true, "b": null, "c": "", "d": "007", "e": "a b", "f": "x,y"})"},
                         {{"a.b=1", "a.c=2", "~a.b"}, R"({"a": {"c": 2}})"},
                         {{"a={b: 1, c: {d: 2}}", "a={c: {e: null}}"}, R"({"a": {"b": 1, "c": {"d": 2, "e": null}}})"}})
    EXPECT_EQ(read_recipe("", words).value, parse_json(tree)) << testing::PrintToString(words);
  for (const auto& [words, problem] :
       std::vector<std::pair<Words, const char*>>{{{"a=1,2"}, "sweep"},
                                                  {{"a=choice(1,2)"}, "calls a Hydra function"},
                                                  {{"a=[1,2"}, "no , or ]"},
                                                  {{"a='x"}, "closing quote"},
                                                  {{"a=${b.c}"}, "--cfg job --resolve"},
                                                  {{"--config-name=other"}, "--cfg job --resolve"},
                                                  {{"--config-path", "x"}, "--cfg job --resolve"},
                                                  {{"actor@a=b"}, "--cfg job --resolve"},
                                                  {{"~a"}, "the recipe has no a"},
                                                  {{"a"}, "expected key=value (verl) or --key value (TRL)"}})
    EXPECT_THAT(error_of(2, [&, &words = words] { read_recipe("", words); }), HasSubstr(problem));
}

TEST(Recipe, TrlArgumentsFollowItsParser) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", "beta: 0.1\nlearning_rate: 1e-5\n");
  EXPECT_EQ(
      read_recipe("",
                  {"--config", file, "--beta", "0.2", "--bf16", "--no_fp16", "--reward-funcs", "a", "b", "--seed=-1",
                   "--max_steps", "-1", "--lora_target_modules", "q_proj,", "v_proj", "data.files=[x]"})
          .value,
      parse_json(
          R"({"beta": 0.2, "learning_rate": 1e-5, "bf16": true, "fp16": false, "reward_funcs": ["a", "b"], "seed": -1,
                           "max_steps": -1, "lora_target_modules": ["q_proj", "v_proj"], "data": {"files": ["x"]}})"));
  EXPECT_THAT(error_of(2, [&] { read_recipe(file, {"--config", file}); }), HasSubstr("names a second recipe"));
}

TEST(Recipe, ClassSectionsAreFlattened) {
  const TestFolder folder;
  const std::string file =
      folder.write("r.json", R"({"GRPOConfig": {"beta": 0.1, "model_init_kwargs": {"dtype": "bfloat16"}},
      "LoraConfig": {"r": 4}, "ModelConfig": {"model_name_or_path": "m"}, "lr_scheduler_kwargs": "{\"min_lr_rate\": \"0.1\"}"})");
  EXPECT_EQ(nlohmann::json(read_recipe(file, {}).value),
            nlohmann::json(
                parse_json(R"({"beta": 0.1, "dtype": "bfloat16", "r": 4, "model_name_or_path": "m", "LoraConfig": true,
                                          "GRPOConfig": true, "lr_scheduler_kwargs": {"min_lr_rate": 0.1}})")));
  EXPECT_THAT(refusal(folder.write("s.json", R"({"GRPOConfig": {"beta": 0.1}, "beta": 0.2})")),
              HasSubstr("are the same key"));
}

TEST(Recipe, ReferencesOfVerlRunsAreResolved) {
  const TestFolder folder;
  const auto value = [&](const std::string& reference) {
    const std::string text =
        "defaults: [_self_, ppo_trainer]\na:\n  n: 6\n  m: ${.n}\n  _target_: x.y\nb: {c: \"" + reference + "\"}\n";
    return *find_value(read_recipe(folder.write("v.yaml", text), {}), "b.c");
  };
  EXPECT_EQ(value("${a.n}"), 6);
  EXPECT_EQ(value("${a.m}"), 6);
  EXPECT_EQ(value("x-${a.n}-${a.m}"), "x-6-6");
  EXPECT_EQ(value("${oc.select:a.n,7}"), 6);
  EXPECT_EQ(value("${oc.select:a.x,7}"), 7);
  EXPECT_EQ(value("${oc.select:a.x,${a.n}}"), 6);
  EXPECT_EQ(value("${oc.select:a.x}"), Json());
  EXPECT_EQ(value("${a}"), parse_json(R"({"n": 6, "m": 6})"));
  for (const char* unresolved : {"${now:%Y}", "${a.x}", "${b.c}", "${a.n"})
    EXPECT_THAT(value(unresolved).dump(), HasSubstr("${")) << unresolved;
  EXPECT_THAT(refusal(folder.write("d.yaml", "defaults: [base]\na: 1\n")), HasSubstr("--cfg job --resolve"));
  EXPECT_THAT(refusal(folder.write("t.yaml", "num_generations: 4\nlearning_rate: ${lr}\ndataset_name: a.jsonl\n")),
              AllOf(HasSubstr("t.yaml:2: learning_rate"), HasSubstr("--cfg job --resolve")));
}

TEST(Recipe, ScriptsAreRejectedWithInstructions) {
  const TestFolder folder;
  for (const auto& [name, text] :
       std::vector<std::pair<std::string, std::string>>{{"run.sh", "X=1\n"},
                                                        {"run", "#!/bin/bash\npython3 -m verl.trainer.main_ppo a=b\n"},
                                                        {"run.txt", "trl grpo --config x.yaml\n"}})
    EXPECT_THAT(refusal(folder.write(name, text)), AllOf(HasSubstr("keep only the variables and the program call"),
                                                         HasSubstr("`keel import -o keel.yaml`")));
}

TEST(Recipe, PythonScriptsAreRejectedWithACommandThatWorks) {
  const TestFolder folder;
  for (const char* text : {"GRPOConfig(beta=0)\n", "#!/usr/bin/env python3\n", "\"\"\"accelerate launch x.py\"\"\"\n"})
    EXPECT_THAT(refusal(folder.write("train.py", text)),
                AllOf(HasSubstr("Python scripts are not supported"), HasSubstr("print(training_args.to_json_string())"),
                      HasSubstr("`keel import args.json model_name_or_path=FOLDER dataset_name=FILE`")));
  // A part of what TRL prints.
  const std::string printed =
      folder.write("args.json", R"({"output_dir": "runs/trl", "num_generations": 4, "fsdp_config": null, "beta": 0.04,
      "accelerator_config": {"split_batches": false, "gradient_accumulation_kwargs": null}, "push_to_hub": false})");
  const Imported recipe = import_recipe(read_recipe(
      printed, {"model_name_or_path=FOLDER", "dataset_name=FILE.jsonl", "reward_funcs=MODULE.FUNCTION", "r=16"}));
  for (const auto& [key, value] : std::map<std::string, Json>{{"run.dir", "runs/trl"},
                                                              {"rollout.samples_per_prompt", 4},
                                                              {"model.path", "FOLDER"},
                                                              {"data.files", {"FILE.jsonl"}},
                                                              {"reward.functions", {"python:MODULE.py:FUNCTION"}},
                                                              {"lora.rank", 16}})
    EXPECT_EQ(setting(recipe, key), value) << key;
}

TEST(Recipe, UnknownKeysAreErrorsUnlessIgnored) {
  const TestFolder folder;
  const std::string file = folder.write(
      "r.yaml", "num_generations: 4\nper_device_train_batch_size: 4\ndataset_name: a.jsonl\nflux_capacity: 3\n");
  EXPECT_THAT(refusal(file),
              AllOf(HasSubstr("r.yaml:4: flux_capacity: unknown key of TRL"), HasSubstr("--ignore flux_capacity")));
  EXPECT_NO_THROW(import_recipe(read_recipe(file, {}), {"flux_capacity"}));
  EXPECT_NO_THROW(
      import_recipe(read_recipe(file, {"--repetition_penalty", "1.1"}), {"flux_capacity", "repetition_penalty"}));
  EXPECT_THAT(error_of(2, [&] { import_recipe(read_recipe(file, {}), {"flux"}); }),
              HasSubstr("the recipe has no such key"));
  EXPECT_THAT(refusal(folder.write("k.yaml", "train: {steps: 5}\n")), HasSubstr("`keel train`"));
}

TEST(Import, WritesTheOriginOfEachLine) {
  const std::string yaml = import_recipe(read_recipe("", {"--num_generations", "4", "--dataset_name", "a.jsonl",
                                                          "--per_device_train_batch_size", "16", "run.seed=3"}))
                               .yaml;
  EXPECT_THAT(yaml, AllOf(HasSubstr("samples_per_prompt: 4"), HasSubstr("# num_generations\n"),
                          HasSubstr("# TRL's default of learning_rate\n"), HasSubstr("# set next to the recipe\n"),
                          HasSubstr("# per_device_train_batch_size 16: per_device_train_batch_size x")));
}

TEST(Import, NotesTheAnchorOfEveryRlRecipe) {
  const auto notes = [](const Words& words) {
    return std::ranges::count_if(import_recipe(read_recipe("", words)).remarks, [](const std::string& remark) {
      return remark.starts_with("anchor: ratios are relative to the sampler's log-probs; TRL and verl recompute them");
    });
  };
  const Words trl = {"num_generations=4", "dataset_name=a.jsonl", "reward_funcs=think_format_reward"},
              verl = {"algorithm.adv_estimator=grpo", "actor_rollout_ref.rollout.n=4", "task.name=chains"};
  for (Words words : {trl, verl}) {
    EXPECT_EQ(notes(words), 1);
    words.push_back("objective.anchor=recomputed");
    EXPECT_EQ(notes(words), 0);
  }
  EXPECT_EQ(notes({"SFTConfig={}", "dataset_name=a.jsonl"}), 0);
}

TEST(Import, NotesOnceThatTruncatedSamplingRenormalises) {
  const Words trl = {"num_generations=4", "dataset_name=a.jsonl", "reward_funcs=think_format_reward"},
              verl = {"algorithm.adv_estimator=grpo", "actor_rollout_ref.rollout.n=4", "task.name=chains"};
  const auto note = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    std::string notes;
    for (const std::string& remark : import_recipe(read_recipe("", words)).remarks)
      if (remark.starts_with("truncated sampling: ")) notes += remark;
    return notes;
  };
  const std::string expected =
      "truncated sampling: Keel renormalises pi over the kept tokens, TRL and verl use the full softmax";
  EXPECT_EQ(note(trl, {"top_p=1.0", "top_k=0", "min_p=null"}), "");
  EXPECT_EQ(note(trl, {"top_p=0.9", "top_k=20"}), expected);
  EXPECT_EQ(note(trl, {"min_p=0.05"}), expected + "; evaluations have no min_p");
  EXPECT_EQ(note(verl, {"actor_rollout_ref.rollout.top_k=-1"}), "");
  EXPECT_EQ(note(verl, {"actor_rollout_ref.rollout.top_p=0.95"}), expected);
}

TEST(Import, ErrorsAboutSettingsNameTheirKeys) {
  EXPECT_THAT(refusal("", {"--num_generations", "8", "--dataset_name", "a.jsonl", "--temperature", "-1"}),
              AllOf(HasSubstr("rollout.temperature"), HasSubstr("comes from temperature -1")));
}

TEST(KeyTables, EveryRowHasAValidSettingAndADescription) {
  Config config;
  OptionTable options;
  config.describe(options);
  for (const KeyTable* table : key_tables())
    for (const auto& [key, row] : table->rows()) {
      EXPECT_TRUE(row.kind != RowKind::kMaps || options.find(row.target) != nullptr) << key;
      EXPECT_THAT(describe_key(key), HasSubstr(key));
    }
  EXPECT_THAT(describe_key("num_generations"), HasSubstr("is rollout.samples_per_prompt"));
  EXPECT_EQ(describe_key("rollout.temperature"), "");
  EXPECT_THAT(describe_key("val_max_samples", Names::kSuffixes), HasSubstr("is eval.prompts"));
}

}  // namespace
}  // namespace keel::compat
