// The conversion of verl 0.9.1 recipes. Expected values are computed by hand from verl's trainer/config, core_algos.py,
// trainer_base.py and the FSDP engine's schedule.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compat/recipe_cases.h"
#include "tests/support/test_folder.h"

namespace keel::compat {
namespace {

using testing::Contains;
using Words = std::vector<std::string>;

const std::string kGrpo = "algorithm.adv_estimator=grpo";

/// A recipe on a built-in task with groups of 4, unless the arguments change it.
Imported imported(Words words) {
  words.insert(words.begin(), {"actor_rollout_ref.rollout.n=4", "task.name=chains"});
  return import_recipe(read_recipe("", words));
}

/// Adds the choice of group advantages to the arguments.
Words with_groups(Words words) {
  words.insert(words.begin(), kGrpo);
  return words;
}

TEST(Verl, ConvertsOrRejectsTheCasesOfTheFile) { expect_recipe_cases("verl_recipes.json"); }

TEST(Verl, SamplesOneCompletionOfAPromptByDefault) {
  const Words absent = {"data.train_files=a.jsonl", "actor_rollout_ref.model.path=m"};
  EXPECT_EQ(setting(import_recipe(read_recipe("", absent)), "rollout.samples_per_prompt"), 1);
}

TEST(Verl, NotesThatTheCriticFollowsThePolicy) {
  EXPECT_THAT(imported({"algorithm.adv_estimator=gae", "actor_rollout_ref.actor.optim.lr_warmup_steps=5"}).remarks,
              Contains(HasSubstr("the critic follows")));
}

TEST(Verl, EveryRejectedKeyHasHarmlessValues) {
  size_t keys = 0;
  for (const auto& [key, row] : verl_table().rows()) {
    if (row.kind != RowKind::kRefuses || verl_table().has_below(key)) continue;
    ++keys;
    EXPECT_THAT(error_of(2, [&, &key = key] { imported(with_groups({key + "=1234"})); }),
                HasSubstr(key + ": got 1234"));
    for (const Json& value : row.harmless) {
      if (value.is_structured()) continue;
      EXPECT_NO_THROW(imported(with_groups({key + "=" + value.dump()}))) << key << value;
    }
    EXPECT_NO_THROW(imported(with_groups({key + "=null"}))) << key;
  }
  EXPECT_GT(keys, 50u);
}

TEST(Verl, RecipesNeedDataAndAModel) {
  const Words without_data = {kGrpo, "actor_rollout_ref.rollout.n=4"};
  EXPECT_THAT(error_of(2, [&] { import_recipe(read_recipe("", without_data)); }),
              AllOf(HasSubstr("data.train_files: is missing"), HasSubstr("add actor_rollout_ref.model.path=")));
  EXPECT_THAT(error_of(2, [] { import_recipe(read_recipe("", {"hydra.job.name=main_ppo"})); }),
              HasSubstr("import .hydra/config.yaml"));
}

TEST(Verl, UnknownKeysAreErrorsUntilIgnored) {
  const Words words =
      with_groups({"task.name=chains", "actor_rollout_ref.rollout.n=4", "trainer.colour=red",
                   "actor_rollout_ref.rollout.tmperature=2", "data.truncation=left", "rollout.max_new_tokns=8"});
  EXPECT_THAT(error_of(2, [&] { imported(words); }),
              AllOf(HasSubstr("trainer.colour: unknown key"), HasSubstr("--ignore trainer.colour"),
                    HasSubstr("actor_rollout_ref.rollout.temperature"), HasSubstr("use rollout.max_new_tokens, or")));
  const Imported recipe = import_recipe(
      read_recipe("", words), {"trainer.colour", "actor_rollout_ref.rollout.tmperature", "rollout.max_new_tokns"});
  EXPECT_THAT(recipe.remarks, AllOf(Contains(HasSubstr("data.truncation left")),
                                    Contains("ignored by --ignore: trainer.colour=\"red\"")));
  EXPECT_EQ(recipe.program, "verl");
  EXPECT_THAT(imported(with_groups({"trainer.nnodes=8", "ray_kwargs.ray_init.num_cpus=4", "trainer.logger=[console]",
                                    "actor_rollout_ref.actor.megatron={tensor_model_parallel_size: 2}"}))
                  .yaml,
              Not(HasSubstr("tensor")));
}

TEST(Verl, ArgumentsOverrideTheFileAndItsReferences) {
  const TestFolder folder;
  const std::string file = folder.write("v.yaml", R"(
defaults: [ppo_trainer, _self_]
_target_: verl.Config
algorithm: {adv_estimator: grpo, _target_: verl.AlgoConfig}
data: {train_files: &rows a.jsonl, val_files: *rows, max_response_length: 8}
actor_rollout_ref:
  model: {path: m}
  actor: {clip_ratio: 0.1, clip_ratio_low: "${.clip_ratio}", clip_ratio_high: "${actor_rollout_ref.actor.clip_ratio}"}
  rollout: {n: 4, response_length: "${oc.select:data.max_response_length,512}", prompt_length: "${oc.select:a.b,512}"}
trainer: {default_local_dir: "out/${trainer.project_name}", project_name: p, total_epochs: "${oc.env:N}"}
)");
  const auto import_file = [&](Words words) { return import_recipe(read_recipe(file, words)); };
  EXPECT_THAT(error_of(2, [&] { import_file({}); }),
              AllOf(HasSubstr("v.yaml:10: trainer.total_epochs"), HasSubstr("--cfg job --resolve")));
  const Imported recipe = import_file({"trainer.total_epochs=2", "actor_rollout_ref.actor.clip_ratio=0.3",
                                       "data.max_response_length=16", "++data.seed=5", "~data.val_files"});
  for (const auto& [key, value] : std::map<std::string, Json>{{"objective.delta_low", 0.3},
                                                              {"objective.delta_high", 0.3},
                                                              {"rollout.max_new_tokens", 16},
                                                              {"run.dir", "out/p"},
                                                              {"run.seed", 5},
                                                              {"data.files", {"a.jsonl"}},
                                                              {"data.eval_files", nullptr},
                                                              {"train.data_epochs", 2}})
    EXPECT_EQ(setting(recipe, key), value) << key;
  for (const char* word : {"--config-name=mine", "trainer.total_epochs=${n}", "algorithm/x=y"})
    EXPECT_THAT(error_of(2, [&] { import_file({word}); }), HasSubstr("--cfg job --resolve")) << word;
}

}  // namespace
}  // namespace keel::compat
