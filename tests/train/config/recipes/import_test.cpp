// Recipes of other programs as configurations of ours; whole ones are in tests/recipes (tests/cli/import_test.py).

#include "keel/train/config/recipes/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/train/config/recipes/recipe.h"
#include "keel/train/config/recipes/shell_script.h"
#include "tests/support/effort.h"
#include "tests/support/test_folder.h"
#include "tests/train/config/loaded_settings.h"

namespace keel {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

testing::Matcher<NamesWithReason> said_of(const std::string& name,
                                          const testing::Matcher<std::string>& reason = testing::_) {
  return AllOf(testing::Field(&NamesWithReason::names, ElementsAre(name)),
               testing::Field(&NamesWithReason::reason, reason));
}

Imported imported(std::vector<std::string> settings) {
  settings.insert(settings.begin(), "algorithm.adv_estimator=grpo");
  settings.insert(settings.begin(), "actor_rollout_ref.rollout.n=4");
  return import_recipe(read_recipe("", settings));
}

TEST(Import, EveryNameThatIsLeftOutIsRefusedInTrainingAndListedInAnImport) {
  Config config;
  OptionTable table;
  config.describe(table);
  size_t names = 0;
  for (const Refusal& refusal : table.refusals()) {
    if (refusal.fate == Fate::kRefused || refusal.source != "verl") continue;
    SCOPED_TRACE(refusal.name);
    if (++names % count<size_t>(4, 1) != 0) continue;
    const std::string setting = refusal.name + "=31";
    EXPECT_THAT(refusal_of({setting, "objective.method=dppo_tv"}), HasSubstr(refusal.name));
    const Imported result = imported({setting});
    EXPECT_THAT(refusal.fate == Fate::kDropped ? result.dropped : result.by_nature, ElementsAre(said_of(refusal.name)));
    EXPECT_THAT(result.yaml, Not(HasSubstr(refusal.name)));
    for (const Json& value : refusal.harmless) {
      if (refusal.fate != Fate::kDropped || value.is_structured()) continue;
      EXPECT_THAT(imported({refusal.name + "=" + value.dump()}).dropped, IsEmpty()) << value;
    }
  }
  EXPECT_GT(names, 100u);
}

TEST(Import, KeepsTensorBoardAndSaysHowToGetToTheOtherTools) {
  const Imported verl = imported({"trainer.logger=[console,tensorboard,wandb]"});
  EXPECT_THAT(verl.yaml, HasSubstr("  tensorboard: true"));
  EXPECT_THAT(verl.dropped,
              ElementsAre(said_of("trainer.logger",
                                  AllOf(StartsWith("wandb: "),
                                        HasSubstr("afterwards `keel export RUN --wandb DIR` makes a run of it")))));
  const Imported trl = import_recipe(read_recipe("", {"num_generations=4", "report_to=[mlflow, tensorboard]"}));
  EXPECT_THAT(trl.yaml, HasSubstr("  tensorboard: true"));
  EXPECT_THAT(trl.dropped, ElementsAre(said_of("report_to", AllOf(StartsWith("mlflow: "), HasSubstr("--mlflow DIR")))));
  // transformers, TrainingArguments.report_to: "all" is every integration that is installed.
  for (const char* everything : {"report_to=all", "report_to=[all]"}) {
    const Imported all = import_recipe(read_recipe("", {"num_generations=4", everything}));
    EXPECT_THAT(all.yaml, HasSubstr("  tensorboard: true"));
    EXPECT_THAT(all.dropped, ElementsAre(said_of("report_to", AllOf(StartsWith("all: "), HasSubstr("--wandb DIR"),
                                                                    HasSubstr("--mlflow DIR")))));
  }
  EXPECT_THAT(refusal_of({"num_generations=4", "report_to=all"}),
              AllOf(HasSubstr("tensorboard alone; write that in place of all"), HasSubstr("--wandb DIR")));
  const Imported without = imported({"trainer.logger=[console,wandb]"});
  EXPECT_THAT(without.yaml, Not(HasSubstr("tensorboard")));
  EXPECT_THAT(without.dropped, testing::SizeIs(1));
}

TEST(Import, SaysWhereEachLineComesFromAndHowItsUnitChanged) {
  const std::string yaml = imported({"actor_rollout_ref.actor.ppo_mini_batch_size=2", "data.train_batch_size=8"}).yaml;
  EXPECT_THAT(yaml,
              AllOf(HasSubstr("sequences_per_update: 8"),
                    HasSubstr("# actor_rollout_ref.actor.ppo_mini_batch_size 2: times rollout.samples_per_prompt"),
                    HasSubstr("prompts_per_step: 8"), HasSubstr("# data.train_batch_size\n"),
                    HasSubstr("# verl's default of actor_rollout_ref.actor.clip_ratio_high\n")));
}

TEST(Import, TheRuleOfANameIsSaidWhereTheValueChangedOrWasComputed) {
  const std::string yaml =
      import_recipe(read_recipe("", {"max_completion_length=12", "dataset_name=a.jsonl", "lora_r=8", "use_peft=true",
                                     "per_device_train_batch_size=8", "num_generations=8", "loss_type=bnpo"}))
          .yaml;
  for (const char* unchanged : {"max_new_tokens: 12", "files: [a.jsonl]", "rank: 8", "samples_per_prompt: 8"}) {
    const size_t at = yaml.find(unchanged);
    ASSERT_NE(at, std::string::npos) << yaml;
    const std::string comment = yaml.substr(yaml.find('#', at), yaml.find('\n', at) - yaml.find('#', at));
    EXPECT_THAT(comment, Not(HasSubstr(":"))) << unchanged;
  }
  EXPECT_THAT(yaml, AllOf(HasSubstr("# per_device_train_batch_size 8: per_device_train_batch_size x "),
                          HasSubstr("# loss_type bnpo: ")));
}

TEST(Import, ACriticThatIsTrainedAsThePolicyIsMayBeSaidToBe) {
  const std::vector<std::string> same = {
      "critic.optim.weight_decay=0.01", "critic.optim.betas=[0.9,0.999]", "critic.ppo_epochs=1",
      "critic.grad_clip=1.0",           "critic.ppo_mini_batch_size=256", "algorithm.norm_adv_by_std_in_grpo=true"};
  std::vector<std::string> recipe = {"algorithm.adv_estimator=gae", "actor_rollout_ref.rollout.n=1"};
  for (std::string setting : same) {
    recipe.push_back(setting);
    if (setting.starts_with("critic.")) recipe.push_back("actor_rollout_ref.actor." + setting.substr(7));
  }
  EXPECT_THAT(import_recipe(read_recipe("", recipe)).yaml, HasSubstr("method: ppo_gae"));
  for (const char* other : {"critic.optim.weight_decay=0.1", "critic.ppo_epochs=2", "critic.grad_clip=0.5"}) {
    std::vector<std::string> differs = recipe;
    differs.push_back(other);
    EXPECT_THAT(error_of(2, [&] { import_recipe(read_recipe("", differs)); }),
                HasSubstr(std::string(other).substr(0, std::string(other).find("="))))
        << other;
  }
}

// verl 0.9.1, ppo_trainer.yaml.
TEST(Import, WritesDownTheDefaultsOfTheOtherProgram) {
  std::vector<std::string> notes;
  const Config config = load_config(parse_config(imported({}).yaml, "keel.yaml"), notes);
  EXPECT_EQ(config.train.prompts_per_step, 1024);
  EXPECT_EQ(config.train.sequences_per_update, 256 * 4);
  EXPECT_EQ(config.optimizer.weight_decay, 0.01);
  EXPECT_EQ(config.rollout.max_new_tokens, 512);
  // TRL 1.16.0: 8 completions for a device, of which generation_batch_size takes several.
  EXPECT_THAT(import_recipe(read_recipe("", {"num_generations=8", "generation_batch_size=64"})).yaml,
              AllOf(HasSubstr("prompts_per_step: 8"), HasSubstr("sequences_per_update: 8 "),
                    HasSubstr("advantage_eps: 0.0001 ")));
  const Imported ppo = import_recipe(read_recipe("", {"actor_rollout_ref.rollout.n=1"}));
  EXPECT_THAT(ppo.yaml, AllOf(HasSubstr("method: ppo_gae"), HasSubstr("body: separate"), HasSubstr("lr: 1e-05")));
}

// verl 0.9.1, actor.yaml: ppo_mini_batch_size 256; TRL 1.16.0: per_device_train_batch_size 8, of which GRPOConfig wants
// a multiple of num_generations.
TEST(Import, AnErrorAboutADefaultSaysWhoseItIsAndHowToSayAnother) {
  const std::string verl = error_of(2, [] { imported({"data.train_batch_size=8"}); });
  EXPECT_THAT(verl, AllOf(HasSubstr("train.sequences_per_update is 1024"),
                          HasSubstr("actor_rollout_ref.actor.ppo_mini_batch_size is not in the recipe, and verl's "
                                    "default is 256 (train.sequences_per_update: times rollout.samples_per_prompt)"),
                          HasSubstr("write actor_rollout_ref.actor.ppo_mini_batch_size=... behind it")));
  const std::string said = error_of(2, [] {
    imported({"data.train_batch_size=8", "actor_rollout_ref.actor.ppo_mini_batch_size=3"});
  });
  EXPECT_THAT(said, AllOf(HasSubstr("train.sequences_per_update is 12"), Not(HasSubstr("not in the recipe")),
                          HasSubstr("The recipe has actor_rollout_ref.actor.ppo_mini_batch_size 3 "
                                    "(train.sequences_per_update: times rollout.samples_per_prompt)"),
                          HasSubstr("The recipe has data.train_batch_size 8")));
  EXPECT_THAT(error_of(2,
                       [] {
                         import_recipe(read_recipe("", {"num_generations=8", "metric_for_best_model=abc"}));
                       }),
              HasSubstr("The recipe has metric_for_best_model abc (checkpoint.best_metric"));
  const std::string trl = error_of(2, [] { import_recipe(read_recipe("", {"num_generations=16"})); });
  EXPECT_THAT(trl, AllOf(HasSubstr("got 8 completions, wanted a multiple of rollout.samples_per_prompt, 16"),
                         HasSubstr("per_device_train_batch_size is not in the recipe, and TRL's default is 8")));
}

/// A configuration whose comments stand right behind their lines.
std::string without_padding(std::string text) {
  for (size_t at = text.find("   "); at != std::string::npos; at = text.find("   ")) text.erase(at, 1);
  return text;
}

TEST(Import, WritesDownPassesAndDropout) {
  const std::vector<std::string> recipe = {"num_generations=8", "dataset_name=a.jsonl", "use_peft=true"};
  const Imported trl = import_recipe(read_recipe("", recipe));
  EXPECT_THAT(trl.yaml, AllOf(HasSubstr("data_epochs: 3"), HasSubstr("# TRL's default of num_train_epochs"),
                              HasSubstr("dropout: 0.05"), Not(HasSubstr("  steps:"))));
  EXPECT_THAT(imported({"data.train_files=a.jsonl"}).yaml, HasSubstr("data_epochs: 30"));
  EXPECT_THAT(imported({"data.train_files=a.jsonl", "trainer.total_training_steps=5"}).yaml,
              AllOf(HasSubstr("steps: 5"), Not(HasSubstr("data_epochs"))));
}

// TRL 1.16.0, ModelConfig: lora_r 16, lora_alpha 32, lora_dropout 0.05; PEFT 0.21.2, LoraConfig: r 8, lora_alpha 8,
// lora_dropout 0; either leaves target_modules to PEFT.
TEST(Import, ADefaultOfAnAdapterIsSaidToBeWhoseItIs) {
  const std::string layers = "[q_proj, v_proj]  # PEFT's default of target_modules\n";
  const auto yaml = [](const std::string& asked) {
    return without_padding(import_recipe(read_recipe("", {"num_generations=8", asked})).yaml);
  };
  EXPECT_THAT(yaml("use_peft=true"),
              AllOf(HasSubstr("rank: 16  # TRL's default of lora_r\n"),
                    HasSubstr("alpha: 32.0  # TRL's default of lora_alpha\n"),
                    HasSubstr("dropout: 0.05  # TRL's default of lora_dropout\n"), HasSubstr(layers)));
  const std::string alpha = "alpha: 8.0  # PEFT's default of lora_alpha\n";
  EXPECT_THAT(yaml("r=4"), AllOf(HasSubstr("rank: 4  # r\n"), HasSubstr(alpha), HasSubstr(layers)));
  EXPECT_EQ(yaml(R"(LoraConfig={"r": 4})"), yaml("r=4"));
  EXPECT_THAT(yaml("LoraConfig={}"),
              AllOf(HasSubstr("rank: 8  # PEFT's default of r\n"), HasSubstr(alpha), HasSubstr(layers)));
  EXPECT_THAT(yaml(R"(LoraConfig={"r": 4, "lora_alpha": 8})"), HasSubstr("alpha: 8.0  # lora_alpha\n"));
}

TEST(Import, ALoraConfigAsksForAnAdapterWithItsOwnDefaults) {
  const auto lora = [](const std::vector<std::string>& settings) {
    std::vector<std::string> recipe = {"num_generations=8", R"(LoraConfig={"r": 4})"};
    recipe.insert(recipe.end(), settings.begin(), settings.end());
    return import_recipe(read_recipe("", recipe)).yaml;
  };
  EXPECT_EQ(lora({"use_peft=true"}), lora({}));
  EXPECT_THAT(error_of(2, [&] { lora({"use_peft=false"}); }),
              AllOf(HasSubstr("use_peft=false"), HasSubstr("LoraConfig"), HasSubstr("remove one of the two")));
}

TEST(Import, AReferenceMayHaveAnotherForItsDefault) {
  const TestFolder folder;
  const auto steps = [&](const std::string& reference) {
    const std::string file = folder.write("v.yaml",
                                          "algorithm: {adv_estimator: grpo}\nactor_rollout_ref: {rollout: {n: 6}}\n"
                                          "trainer: {total_training_steps: \"" +
                                              reference + "\"}\n");
    return import_recipe(read_recipe(file, {})).yaml;
  };
  EXPECT_THAT(steps("${oc.select:a.b,${oc.select:c.d,${actor_rollout_ref.rollout.n}}}"), HasSubstr("  steps: 6 "));
  EXPECT_THAT(steps("${oc.select:a.b,${oc.select:c.d,7}}"), HasSubstr("  steps: 7 "));
  EXPECT_THAT(error_of(2, [&] { steps("${oc.select:a.b,${oc.select:c.d,7}"); }), HasSubstr("is not closed"));
  EXPECT_THAT(error_of(2, [&] { steps("${oc.select:a.${b},7}"); }), HasSubstr("has another reference in its name"));
}

// verl 0.9.1, trainer/ppo/utils.py: need_critic.
TEST(Import, ACriticThatVerlDoesNotHaveIsNotRead) {
  const auto with = [](std::vector<std::string> settings) {
    settings.insert(settings.begin(), {"actor_rollout_ref.rollout.n=4", "critic.optim.betas=[0.8,0.9]"});
    return import_recipe(read_recipe("", settings));
  };
  EXPECT_THAT(with({"algorithm.adv_estimator=grpo"}).dropped, ElementsAre(said_of("critic.optim.betas")));
  EXPECT_THAT(error_of(2, [&] { with({"algorithm.adv_estimator=gae"}); }), HasSubstr("critic.optim.betas"));
  EXPECT_THAT(error_of(2,
                       [&] {
                         with({"algorithm.adv_estimator=grpo", "critic.enable=true"});
                       }),
              HasSubstr("critic.optim.betas"));
}

TEST(Import, TwoNamesOfVerlsMaySayTheSame) {
  const std::vector<std::string> names = {"actor_rollout_ref.rollout.n=4", "algorithm.adv_estimator=grpo",
                                          "actor_rollout_ref.actor.grad_clip=0.5",
                                          "actor_rollout_ref.rollout.dtype=bfloat16"};
  const auto with = [&](const std::string& clip, const std::string& type) {
    std::vector<std::string> settings = names;
    settings.insert(settings.end(), {"actor_rollout_ref.actor.optim.clip_grad=" + clip,
                                     "actor_rollout_ref.actor.fsdp_config.dtype=" + type});
    return import_recipe(read_recipe("", settings)).yaml;
  };
  EXPECT_THAT(with("0.5", "bfloat16"), AllOf(HasSubstr("max_grad_norm: 0.5"), HasSubstr("precision: bf16")));
  EXPECT_THAT(error_of(2, [&] { with("0.6", "bfloat16"); }), HasSubstr("keep one of them"));
  EXPECT_THAT(error_of(2, [&] { with("0.5", "float16"); }), HasSubstr("keep one of them"));
}

// transformers, TrainingArguments: "This argument is not directly used by Trainer, it's intended to be used by your
// training/evaluation scripts instead"; eval_strategy is what the trainer reads.
TEST(Import, SaysThatTheTrainerDoesNotReadWhatIsForTheScript) {
  const auto left_out = [](const std::string& said) {
    return import_recipe(read_recipe("", {"num_generations=8", said})).dropped;
  };
  EXPECT_THAT(left_out("do_eval=true"),
              ElementsAre(said_of("do_eval", AllOf(StartsWith("it is for the script"), HasSubstr("eval_strategy"),
                                                   Not(HasSubstr("--resume"))))));
  EXPECT_THAT(left_out("do_train=true"), ElementsAre(said_of("do_train", StartsWith("it is for the script"))));
  EXPECT_THAT(left_out("do_eval=false"), ElementsAre());
}

// TRL 1.16.0, GRPOTrainer: disable_dropout sets the p of every torch.nn.Dropout to 0, after the adapter is put on.
TEST(Import, DropoutThatTheRecipeSwitchesOffIsNotTheAdapters) {
  for (const std::string said : {"lora_dropout=0.1", "lora_r=8"}) {
    const Imported off =
        import_recipe(read_recipe("", {"num_generations=8", "use_peft=true", said, "disable_dropout=true"}));
    EXPECT_THAT(off.yaml, Not(HasSubstr("  dropout:"))) << said;
    EXPECT_THAT(off.by_nature, ElementsAre(said_of("disable_dropout"))) << said;
  }
  EXPECT_THAT(import_recipe(read_recipe("", {"num_generations=8", "use_peft=true", "disable_dropout=false"})).yaml,
              HasSubstr("dropout: 0.05"));
}

TEST(Import, PassesThatAreTypedWinOverTheStepsOfTheRecipe) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", "num_generations: 8\ndataset_name: a.jsonl\nmax_steps: 20\n");
  const Imported result = import_recipe(read_recipe(file, {"num_train_epochs=3"}));
  EXPECT_THAT(result.yaml, AllOf(HasSubstr("data_epochs: 3"), Not(HasSubstr("  steps:"))));
  // A section of Python's arguments may be typed as well.
  EXPECT_THAT(import_recipe(read_recipe(file, {R"(model_init_kwargs={"torch_dtype": "bfloat16"})"})).yaml,
              HasSubstr("precision: bf16"));
}

TEST(Import, RefusesAllThatWouldChangeTheMeaningAtOnce) {
  const std::string error = error_of(2, [] {
    imported(
        {"actor_rollout_ref.rollout.top_p=0.9", "algorithm.use_pf_ppo=true", "actor_rollout_ref.rollout.tmperature=1"});
  });
  EXPECT_THAT(error, AllOf(HasSubstr("actor_rollout_ref.rollout.top_p=0.9"), HasSubstr("algorithm.use_pf_ppo"),
                           HasSubstr("did you mean actor_rollout_ref.rollout.temperature?")));
}

TEST(Import, AFileThatIsNeitherIsToldWithWhatItHas) {
  EXPECT_THAT(error_of(2,
                       [] {
                         import_recipe(read_recipe("", {"colour=red", "size.width=3"}));
                       }),
              AllOf(HasSubstr("neither a recipe of TRL's nor one of verl's"), HasSubstr("colour, size.width")));
  EXPECT_THAT(error_of(2, [] { import_recipe(read_recipe("", {"train.steps=5"})); }),
              HasSubstr("a configuration of Keel's already"));
}

TEST(Recipe, HydrasSigns) {
  const ConfigTree tree = read_recipe("", {"+a.b=1", "++a.c=[x, y]", "d='[1]'", "e=['p','q']", "a.f=2", "~a.f"});
  EXPECT_EQ(tree.value.dump(), R"({"a":{"b":1,"c":["x","y"]},"d":"[1]","e":["p","q"]})");
  const ConfigTree sections =
      read_recipe("", {"a.b=1", "a={c: 2}", "chat_template_kwargs={d: 3}", "chat_template_kwargs={e: 4}"});
  EXPECT_EQ(sections.value, (Json{{"a", {{"b", 1}, {"c", 2}}}, {"chat_template_kwargs", {{"e", 4}}}}));
  EXPECT_THAT(error_of(2, [] { read_recipe("", {"~nothing"}); }), HasSubstr("no nothing to leave out"));
}

TEST(Recipe, HydrasReferencesToTheRecipeItself) {
  const ConfigTree tree = read_recipe("", {"a.b=0.5", "a.c=${a.b}", "a.d=${.c}", "e=x/${a.b}/y", "f=${oc.select:g,7}",
                                           "h=${oc.select:a.b,7}", "defaults=[ppo_trainer, _self_]"});
  EXPECT_EQ(tree.value.dump(), R"({"a":{"b":0.5,"c":0.5,"d":0.5},"e":"x/0.5/y","f":7,"h":0.5})");
  EXPECT_THAT(error_of(2, [] { read_recipe("", {"a=${b.c}"}); }),
              AllOf(HasSubstr("a: ${b.c}"), HasSubstr("names nothing in this recipe")));
  EXPECT_THAT(error_of(2, [] { read_recipe("", {"a=${oc.env:HOME}"}); }), HasSubstr("a function of Hydra's"));
  EXPECT_THAT(error_of(2, [] { read_recipe("", {"a=${b}", "b=${a}"}); }), HasSubstr("leads back to itself"));
  EXPECT_THAT(error_of(2, [] { read_recipe("", {"defaults=[sweep/large]"}); }), HasSubstr("sweep/large"));
}

TEST(Recipe, AReferenceToASectionTakesWhatThatRefersTo) {
  EXPECT_EQ(read_recipe("", {R"(a={"b": "${c}/m", "d": ["${c}"]})", "c=out", "e=${a}"}).value["e"].dump(),
            R"({"b":"out/m","d":["out"]})");
  EXPECT_THAT(error_of(2, [] { read_recipe("", {R"(a={"b": "${a}"})"}); }), HasSubstr("leads back to itself"));
}

TEST(Recipe, AReferenceThatIsLongIsQuotedInPart) {
  std::string nested = "x";
  for (int i = 0; i < 20000; ++i) nested = "${oc.select:q," + nested + "}";
  EXPECT_LT(error_of(2, [&] { read_recipe("", {"a=" + nested}); }).size(), 1000u);
}

TEST(Recipe, WhatGrowsWithoutBoundsIsRefused) {
  std::vector<std::string> texts = {"a0=xxxxxxxxxx"}, sections = {R"(a0={"x": 1, "y": 2})"}, backwards = {"a40=x"};
  for (int i = 1; i < 40; ++i) {
    const auto twice = [&](const std::string& of, const std::string& between) { return of + between + of; };
    const std::string name = "a" + std::to_string(i), before = "${a" + std::to_string(i - 1) + "}";
    texts.push_back(name + "=" + twice(before, ""));
    sections.push_back(name + R"(={"x": ")" + twice(before, R"(", "y": ")") + R"("})");
    backwards.push_back(name + "=" + twice("${a" + std::to_string(i + 1) + "}", ""));
  }
  for (const auto& settings : {texts, sections, std::vector(backwards.end() - 28, backwards.end())})
    EXPECT_THAT(error_of(2,
                         [&] {
                           std::vector<std::string> all = settings;
                           all.push_back("a40=x");
                           read_recipe("", all);
                         }),
                HasSubstr("too large"));
  std::string scalars = "x:\n - &a '" + std::string(4000, 'x') + "'\n";
  for (int i = 0; i < 2000; ++i) scalars += " - *a\n";
  EXPECT_THAT(error_of(2, [&] { parse_config(scalars, "r.yaml", Anchors::kResolved); }), HasSubstr("too large"));

  const std::string verl = "python3 -m verl.trainer.main_ppo ";
  std::string doubled = "A=(x y z)\nB=" + std::string(1000, 'x') + "\n", many;
  for (int i = 0; i < 60; ++i) doubled += "A=(\"${A[@]}\" \"${A[@]}\")\nB=\"$B$B\"\n";
  for (int i = 0; i < 8000; ++i) many += " $C";
  for (const std::string& script : {doubled + verl + "a.b=1 \"${A[@]}\"\n", doubled + verl + "a.b=$B\n",
                                    "C=" + std::string(1000, 'c') + "\n" + verl + "a.b=1" + many + "\n"})
    EXPECT_THAT(error_of(2, [&] { settings_of_script(script, "run.sh"); }), HasSubstr("too large"));
}

TEST(Recipe, AScriptIsATextOfAtMostAMegabyte) {
  const TestFolder folder;
  const auto refusal = [&](const std::string& text) {
    return error_of(2, [&] { read_recipe(folder.write("run.sh", text), {}); });
  };
  const std::string verl = "python3 -m verl.trainer.main_ppo ";
  EXPECT_THAT(refusal(verl + "\\\n" + std::string(1 << 20, ' ') + "a.b=1\n"), HasSubstr("larger than 1 MiB"));
  EXPECT_THAT(refusal(verl + "a.b=1" + std::string(1, '\0') + "\n"),
              AllOf(HasSubstr("run.sh:1"), HasSubstr("control")));
  EXPECT_THAT(refusal("\n" + verl + "a..b=1\n"), AllOf(HasSubstr("run.sh:2: a..b=1"), Not(HasSubstr("command line"))));
  EXPECT_EQ(read_recipe(folder.write("run.sh", verl + "\\\r\n a.b=1 \\\r\n a.c=x\r\n"), {}).value.dump(),
            R"({"a":{"b":1,"c":"x"}})");
}

TEST(Recipe, AnchorsOfYamlAreResolved) {
  const ConfigTree tree = parse_config("a: &x {p: 1, q: &y [2, 3]}\nb: *x\nc: *y\n", "r.yaml", Anchors::kResolved);
  EXPECT_EQ(tree.value.dump(), R"({"a":{"p":1,"q":[2,3]},"b":{"p":1,"q":[2,3]},"c":[2,3]})");
  const auto error = [](const std::string& text) {
    return error_of(2, [&] { parse_config(text, "r.yaml", Anchors::kResolved); });
  };
  EXPECT_THAT(error("a: &x {p: 1}\nb:\n  <<: *x\n"), AllOf(StartsWith("r.yaml:3"), HasSubstr("merge key")));
  EXPECT_THAT(error("a: *x\n"), StartsWith("r.yaml:1"));
  std::string laughs = "a0: &a0 [1, 1]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string before = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    laughs += name + ": &" + name + " [" + before + ", " + before + "]\n";
  }
  EXPECT_THAT(error(laughs), HasSubstr("too large"));
}

std::vector<std::string> of_script(const std::string& text) {
  std::vector<std::string> settings;
  for (const ScriptSetting& setting : settings_of_script(text, "run.sh")) settings.push_back(setting.text);
  return settings;
}

// Expected words by hand, as bash would hand them over.
TEST(Recipe, TheSettingsOfAShellScript) {
  const std::string verl = "python3 -m verl.trainer.main_ppo ";
  EXPECT_THAT(of_script("set -x\nn=$((2 * (3 + 1)))  # why\nname='a b'\nlist=\"['$name', 'c']\"\n" + verl +
                        "\\\n  a.n=${n} a.m=$((n / 3)) \\\n  b=\"$list\" c=${D:-x-${n}} +e='[\"p\"]' $@ > log 2>&1\n"),
              ElementsAre("a.n=8", "a.m=2", "b=['a b', 'c']", "c=x-8", "+e=[\"p\"]"));
  EXPECT_THAT(of_script("MORE=\"\n  a.b=1 \\\n  a.c=2\"\n" + verl + "$MORE a.d=3\n"),
              ElementsAre("a.b=1", "a.c=2", "a.d=3"));
  EXPECT_THAT(of_script("x=5\nDATA=(\n  a.b=$x  # five\n  a.c='p q'\n)\nDATA+=(a.d=\"$x\")\nEMPTY=(\n)\nRUN=(python3)\n"
                        "\"${RUN[@]}\" -m verl.trainer.main_ppo \"${DATA[@]}\" \"${EMPTY[@]}\" a.e=1 \"$@\"\n"),
              ElementsAre("a.b=5", "a.c=p q", "a.d=5", "a.e=1"));
  EXPECT_THAT(of_script("a.b=1 \\\n  +a.c=2\n"), ElementsAre("a.b=1", "+a.c=2"));
  EXPECT_THAT(of_script("a.b=1 \\\n  ~a.c ~d +e=~f\n"), ElementsAre("a.b=1", "~a.c", "~d", "+e=~f"));
  EXPECT_THAT(of_script(verl + "a.b=1 ~a.c\n"), ElementsAre("a.b=1", "~a.c"));
  EXPECT_THAT(of_script("accelerate launch --config_file z.yaml grpo.py --learning_rate 1e-5 --use_peft "
                        "--lora_target_modules q_proj v_proj --beta=0.1\n"),
              ElementsAre("learning_rate=1e-5", "use_peft=true", R"(lora_target_modules=["q_proj","v_proj"])",
                          "beta=0.1", "GRPOConfig={}"));
  EXPECT_EQ(settings_of_script("\n\n" + verl + "\\\n a.b=1\n", "run.sh")[0].line, 4);
}

// accelerate's launch.py (num_processes are all of them), torchrun's and deepspeed's arguments.
TEST(Recipe, TheLaunchersProcessesAreThoseOfTheRecipe) {
  const auto settings = [](const std::string& launcher) {
    return of_script("N=8\n" + launcher + " grpo.py --learning_rate 1e-5\n");
  };
  for (const char* launcher :
       {"accelerate launch --num_processes 8 --config_file z.yaml", "accelerate launch --num_processes=$N",
        "torchrun --nproc_per_node=8", "torchrun --nnodes 2 --nproc-per-node 4", "deepspeed --num_gpus 8",
        "CUDA_VISIBLE_DEVICES=0,1 python3 -m torch.distributed.run --nproc_per_node $N"})
    EXPECT_THAT(settings(launcher), ElementsAre("learning_rate=1e-5", "num_processes=8", "GRPOConfig={}")) << launcher;
  for (const char* launcher : {"accelerate launch", "python3", "CUDA_VISIBLE_DEVICES=0,1 accelerate launch --port $P"})
    EXPECT_THAT(settings(launcher), ElementsAre("learning_rate=1e-5", "GRPOConfig={}")) << launcher;
  for (const char* launcher : {"python", "accelerate launch", "torchrun --nnodes 1 --nproc_per_node 1"})
    for (const char* module : {" -m trl.scripts.", " --module trl.scripts."}) {
      EXPECT_THAT(of_script(std::string(launcher) + module + "grpo --beta 0.1\n"), Contains("GRPOConfig={}"))
          << launcher;
      EXPECT_THAT(of_script(std::string(launcher) + module + "sft --packing true\n"),
                  AllOf(Contains("packing=true"), Contains("SFTConfig={}")));
    }
  EXPECT_THAT(of_script("accelerate launch --num_processes 8 -m trl.scripts.grpo --beta 0.1\n"),
              ElementsAre("beta=0.1", "num_processes=8", "GRPOConfig={}"));
  EXPECT_THAT(of_script("trl grpo --num_processes 8 --beta 0.1\n"),
              ElementsAre("num_processes=8", "beta=0.1", "GRPOConfig={}"));
  EXPECT_THAT(error_of(2, [&] { settings("torchrun --nproc_per_node=gpu"); }),
              AllOf(StartsWith("run.sh:2"), HasSubstr("\"gpu\" is no number of processes")));
}

TEST(Recipe, TheArgumentsOfAPythonProgram) {
  EXPECT_THAT(of_script("trl grpo --reward_weights 1.0 0.5 --no_bf16 --system_prompt 'a = b'\n"),
              ElementsAre("reward_weights=[1.0,0.5]", "bf16=false", "system_prompt=a = b", "GRPOConfig={}"));
}

TEST(Recipe, AScriptSaysWhichTrainerItStarts) {
  const std::string names = " --dataset_name rows.jsonl --lr_scheduler_type cosine\n";  // both trainers have them
  EXPECT_THAT(of_script("trl grpo" + names), Contains("GRPOConfig={}"));
  EXPECT_THAT(of_script("trl sft" + names), Contains("SFTConfig={}"));
  EXPECT_THAT(of_script("accelerate launch train_grpo.py" + names), Contains("GRPOConfig={}"));
  EXPECT_THAT(of_script("python3 train.py" + names), Not(Contains(HasSubstr("Config={}"))));
}

TEST(Recipe, WhatOnlyRunningAScriptCouldTellIsRefusedWithItsLine) {
  const std::string verl = "python3 -m verl.trainer.main_ppo ";
  const auto error = [](const std::string& text) { return error_of(2, [&] { of_script(text); }); };
  EXPECT_THAT(error("if [ $X ]; then\n  n=1\nfi\n" + verl + "a.n=$n\n"),
              AllOf(StartsWith("run.sh:4: $n may be set on line 2, which only running the script could tell"),
                    HasSubstr("write the value out")));
  EXPECT_THAT(error(verl + "a.n=$KEEL_HAS_NO_SUCH_NAME\n"), HasSubstr("$KEEL_HAS_NO_SUCH_NAME has no value"));
  EXPECT_THAT(error("n=$(nproc)\nm=$n\n" + verl + "a.n=$m\n"), AllOf(StartsWith("run.sh:1"), HasSubstr("is not run")));
  EXPECT_THAT(of_script("n=$(nproc)\n" + verl + "a.n=1\n"), ElementsAre("a.n=1")) << "nobody asks for it";
  EXPECT_THAT(error(verl + "a.n=1\n" + verl + "a.n=2\n"), HasSubstr("a second training, after the one on line 1"));
  EXPECT_THAT(error(verl + "--config-name=mine a.n=1\n"), HasSubstr("names a file of further settings"));
  EXPECT_THAT(error("echo hello\n"), HasSubstr("there is no training in this script"));
  EXPECT_THAT(error(verl + "a='x\n"), HasSubstr("a quote or a bracket is never closed"));
  EXPECT_THAT(error("if true; then\n  n=1\n" + verl + "a.n=1\n"), HasSubstr("`fi` is missing at the end"));
  EXPECT_THAT(error("fi\n" + verl + "a.n=1\n"), AllOf(StartsWith("run.sh:1"), HasSubstr("`fi` closes nothing")));
}

}  // namespace
}  // namespace keel
