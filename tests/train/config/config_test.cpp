#include "keel/train/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <sstream>

#include "keel/core/files/file.h"
#include "keel/core/options/read_config.h"
#include "tests/support/errors.h"
#include "tests/train/config/loaded_settings.h"

namespace keel {
namespace {

TEST(Config, QuickstartExampleEqualsTheQuickstartConfig) {
  if (!can_read_yaml()) GTEST_SKIP() << "this build reads no YAML";
  std::vector<std::string> notes;
  const Config example = load_config(read_config("examples/quickstart.yaml"), notes);
  EXPECT_EQ(to_json(example).dump(1), to_json(quickstart_config()).dump(1));
  EXPECT_THAT(notes, testing::IsEmpty());
}

TEST(Config, DocumentationPageMatchesTheOptionTable) {
  const std::string page = "docs/configuration.md";
  const std::string command = "KEEL_UPDATE_DOCS=1 build/tests/keel_tests --gtest_filter='Config.DocumentationPage*'";
  Config config;
  OptionTable table;
  config.describe(table);
  const std::string tables = table.markdown();
  std::string needed;
  std::istringstream keys(
      "run.dir run.device model.path lora.rank data.files data.eval_files data.held_out data.chat reward.functions "
      "reward.weights rollout.samples_per_prompt rollout.max_new_tokens rollout.temperature objective.method "
      "objective.delta reference.kl_coefficient optimizer.lr optimizer.warmup_updates train.steps "
      "train.prompts_per_step train.sequences_per_update train.tokens_per_batch train.recompute_activations eval.every "
      "checkpoint.every");
  for (std::string key; keys >> key;) {
    const size_t begin = tables.find("| `" + key + "` |");
    needed += tables.substr(begin, tables.find('\n', begin) + 1 - begin);
  }
  const std::string generated =
      "# Settings\n\n<!-- Generated from the table of options; change the code, then run\n     " + command + R"( -->

With this page you can write a configuration: a YAML or JSON file with these sections. `keel train FILE key=value ...`
overrides single keys (`train.steps=200`). Every key has a default. Unknown or repeated keys, values of another type or
outside the range, and contradicting settings are errors that name the place and the fix.
One string without a comma is a list of one: `data.files: rows.jsonl`.
Paths are relative to the folder where Keel starts; a run records absolute paths. `config.yaml` in a run's folder has
every key; [examples/quickstart.yaml](../examples/quickstart.yaml) is a complete example.

## The 25 you need

| key | default | value | meaning |
| --- | --- | --- | --- |
)" + needed +
      "\n" + tables;
  if (std::getenv("KEEL_UPDATE_DOCS") != nullptr) write_atomically(page, generated);
  EXPECT_TRUE(read_file(page) == generated) << page << " is not what the code says; regenerate it with\n  " << command;
}

TEST(Config, HasAtMost144SettingsAndRemovedOnesNameTheirFix) {
  Config config;
  OptionTable table;
  config.describe(table);
  EXPECT_LE(table.options().size(), 144u) << "a new setting has to replace another one";
  EXPECT_EQ(table.refusals().size(), 34u);
  for (const auto& [name, fix] : table.refusals()) {
    EXPECT_EQ(table.find(name), nullptr) << name;
    EXPECT_THAT(fix, testing::AnyOf(HasSubstr("was removed"), HasSubstr("was renamed")));
    EXPECT_THAT(fix, HasSubstr("Fix: "));
    EXPECT_THAT(refusal_of({name + "=1"}), HasSubstr("command line: " + name + "=1: " + fix));
  }
}

TEST(Config, AcceptsAllDefaults) {
  Config config;
  OptionTable table;
  config.describe(table);
  EXPECT_NO_THROW(table.load({}));
  EXPECT_NO_THROW(check_consistency(config));
}

TEST(Config, SurvivesTheRoundTripThroughYaml) {
  if (!can_read_yaml()) GTEST_SKIP() << "this build reads no YAML";
  Config config = quickstart_config();
  config.run.dir = "a run: with # odd 'characters'";
  config.run.seed = 18446744073709551615u;
  config.optimizer.lr = 0.1 + 0.2;
  config.objective.delta_low = 0.125;
  std::vector<std::string> notes;
  const Config back = load_config(parse_config(to_yaml(config, "heading"), "x.yaml"), notes);
  EXPECT_EQ(to_json(back), to_json(config));
  EXPECT_EQ(back.run.seed, 18446744073709551615u);
  EXPECT_EQ(back.optimizer.lr, 0.1 + 0.2);
}

TEST(Config, SuggestsTheNearestValue) {
  EXPECT_THAT(refusal_of({"run.device=gpu"}), HasSubstr("did you mean cuda?"));
  EXPECT_THAT(refusal_of({"run.device=cuda:0"}), HasSubstr("did you mean cuda?"));
  EXPECT_THAT(refusal_of({"rollout.max_sequences=65536"}), HasSubstr("65535"));
  EXPECT_THAT(refusal_of({"run.device=cpus"}), HasSubstr("did you mean cpu?"));
}

TEST(ConfigConsistency, AStepIsAWholeNumberOfUpdates) {
  const std::string message = refusal_of({"train.prompts_per_step=6", "train.sequences_per_update=32"});
  EXPECT_THAT(message, HasSubstr("train.sequences_per_update is 32"));
  EXPECT_THAT(message, HasSubstr("choose a divisor of 48"));  // 6 prompts x 8 samples
  EXPECT_EQ(
      load({"train.prompts_per_step=6", "train.sequences_per_update=16", "train.epochs=2"}).config.updates_per_step(),
      6);  // 2 passes over 48 completions, 16 at a time
  EXPECT_EQ(load({"train.prompts_per_step=6"}).config.sequences_per_update(), 48);  // 0: the whole step
}

TEST(ConfigConsistency, AnUpdateHasWholeGroupsUnlessRolloutsAreShuffled) {
  const std::vector<std::string> odd{"train.prompts_per_step=6", "train.sequences_per_update=12"};
  const std::string message = refusal_of(odd);
  for (const char* part : {"command line: train.sequences_per_update is 12", "train.shuffle is prompts",
                           "multiple of 8", "divides 48", "train.shuffle=rollouts"})
    EXPECT_THAT(message, HasSubstr(part));
  EXPECT_EQ(load({odd[0], odd[1], "train.shuffle=rollouts"}).config.updates_per_step(), 4);
  EXPECT_THAT(refusal_of({odd[0], "train.sequences_per_update=32"}),
              HasSubstr("divisor of 48 that is a multiple of 8"));
  EXPECT_EQ(load({odd[0], "train.sequences_per_update=24"}).config.train.shuffle, "prompts");  // the default
  EXPECT_THAT(refusal_of({"train.shuffle=groups"}), HasSubstr("prompts"));
}

TEST(ConfigConsistency, AnErrorNamesTheLineOfTheSetting) {
  std::vector<std::string> notes;
  const ConfigTree tree = parse_config("{\n \"train\": {\n  \"sequences_per_update\": 12}}", "run.json");
  EXPECT_THAT(error_of(2, [&] { load_config(tree, notes); }),
              HasSubstr("run.json:3: train.sequences_per_update is 12"));
}

TEST(ConfigConsistency, LogitNoiseWithAnExactDivergenceIsAnError) {
  EXPECT_THAT(refusal_of({"rollout.logit_noise=0.5", "objective.method=dppo_full_tv"}),
              HasSubstr("rollout.logit_noise is 0.5, but the method dppo_full_tv computes exact divergences"));
  EXPECT_THAT(refusal_of({"rollout.logit_noise=0.5", "objective.centering=exact"}),
              HasSubstr("objective.centering=topk"));
  EXPECT_EQ(load({"rollout.logit_noise=0.5", "objective.method=dppo_topk_kl"}).config.rollout.logit_noise, 0.5);
}

TEST(ConfigConsistency, AGroupOfOneIsAnErrorIfTheAdvantageComparesAGroup) {
  EXPECT_THAT(refusal_of({"rollout.samples_per_prompt=1"}), HasSubstr("a group needs at least 2"));
  EXPECT_NO_THROW(load({"rollout.samples_per_prompt=1", "train.steps=0"}));
  EXPECT_NO_THROW(load({"rollout.samples_per_prompt=1", "objective.advantage=batch_mean", "train.prompts_per_step=8",
                        "train.sequences_per_update=8"}));
  const std::vector<std::string> one = {"rollout.samples_per_prompt=1", "objective.method=ppo",
                                        "objective.advantage=reinforce_pp"};
  EXPECT_NO_THROW(load(one));
  std::vector<std::string> single_prompt = one;
  single_prompt.push_back("train.prompts_per_step=1");
  EXPECT_THAT(refusal_of(single_prompt), HasSubstr("completions of a step, so it needs at least 2"));
  EXPECT_THAT(refusal_of({"rollout.samples_per_prompt=1", "objective.advantage=reinforce_pp_baseline"}),
              HasSubstr("a group needs at least 2"));
}

TEST(ConfigConsistency, MaxrlRefusesRewardsThatCanBeNegative) {
  EXPECT_THAT(refusal_of({"objective.advantage=maxrl", "reward.overlong_buffer=4"}),
              HasSubstr("reward.overlong_buffer subtracts a penalty"));
  EXPECT_THAT(refusal_of({"objective.advantage=maxrl", "reward.weights=[-1]"}),
              HasSubstr("reward.weights has a negative number"));
  EXPECT_NO_THROW(load({"objective.advantage=maxrl"}));
}

TEST(ConfigConsistency, AStepHasAMaximumNumberOfCompletions) {
  const std::string message = refusal_of({"train.prompts_per_step=1000000", "rollout.samples_per_prompt=1000"});
  EXPECT_THAT(message, HasSubstr("1000000000 completions in one step; at most 16777216"));
}

TEST(ConfigConsistency, AMethodRejectsParametersOfOthers) {
  const std::string message = refusal_of({"objective.method=gspo", "objective.ratio_cap=3"});
  EXPECT_THAT(message, HasSubstr("objective.ratio_cap"));
  EXPECT_THAT(message, HasSubstr("gspo"));
  EXPECT_NO_THROW(load({"objective.method=dppo_tv", "objective.ratio_cap=3"}));
}

TEST(ConfigConsistency, NoneIsNoRatioCap) {
  const Config config = load({"objective.ratio_cap=none"}).config;
  EXPECT_EQ(config.objective.ratio_cap, std::numeric_limits<double>::infinity());
  EXPECT_EQ(to_json(config).at("objective").at("ratio_cap"), "none");
  EXPECT_THAT(refusal_of({"objective.ratio_cap=non"}), HasSubstr("a number above 0, none (no limit), or null"));
  EXPECT_THAT(refusal_of({"objective.delta=none"}), HasSubstr("objective.delta=none: got \"none\""));
}

TEST(ConfigConsistency, SettingsWithoutEffectAreErrors) {
  EXPECT_THAT(refusal_of({"objective.delta=0.3", "objective.delta_low=0.1", "objective.delta_high=0.2"}),
              HasSubstr("objective.delta is 0.3"));
  EXPECT_THAT(refusal_of({"objective.method=dapo", "objective.horizon=7"}), HasSubstr("objective.horizon is 7"));
  EXPECT_THAT(refusal_of({"objective.advantage=gae"}), HasSubstr("needs a critic"));
  EXPECT_THAT(refusal_of({"objective.method=drpo", "objective.parameters=[target_kept=0.9]"}),
              HasSubstr("has no thresholds"));
  EXPECT_THAT(refusal_of({"objective.parameters=[target_kept=1.5]"}), HasSubstr("at most 1"));
  EXPECT_THAT(refusal_of({"reference.estimator=k4"}), HasSubstr("one of k1, k2, k3"));
  EXPECT_THAT(refusal_of({"reference.kl_coefficient=-1"}), HasSubstr("at least 0"));
  // 16 prompts x 8 completions: a fifth of them is 25.6.
  EXPECT_THAT(refusal_of({"reference.kl_in_reward=0.1", "reference.kl_in_reward_target=0.1",
                          "reference.kl_in_reward_horizon=25"}),
              AllOf(HasSubstr("reference.kl_in_reward_horizon is 25"), HasSubstr("above 25.6")));
  EXPECT_THAT(refusal_of({"objective.method=gspo", "objective.advantage=reinforce_pp", "reference.kl_in_reward=0.1"}),
              HasSubstr("reference.kl_in_reward is 0.1"));
  EXPECT_THAT(refusal_of({"lora.target_modules=[q_proj, q_proj]", "lora.rank=4"}), HasSubstr("has q_proj twice"));
  EXPECT_THAT(refusal_of({"reward.overlong_buffer=41", "rollout.max_new_tokens=40"}),
              HasSubstr("reward.overlong_buffer is 41, but no completion is longer than 40"));
}

TEST(ConfigConsistency, ATypedMethodNotesTheObjectiveSettingsOfTheFile) {
  using testing::Contains;
  const ConfigTree file = parse_config(
      "objective:\n  method: dapo\n  delta_low: 0.2\n  delta_high: 0.28\n  aggregation: token_mean\n", "own.yaml");
  const auto note = HasSubstr("on the command line also uses settings of own.yaml");
  EXPECT_THAT(load(file, {"objective.method=dppo_kl"}).notes,
              Contains(AllOf(note, HasSubstr("objective.delta_low 0.2, objective.delta_high 0.28"),
                             HasSubstr("objective.aggregation token_mean"))));
  EXPECT_THAT(load(file, {}).notes, Not(Contains(note)));
  const ConfigTree anchored = parse_config("objective: {method: minimal_mask, anchor: recomputed}\n", "own.yaml");
  EXPECT_THAT(load(anchored, {"objective.method=dppo_tv"}).notes,
              Contains(AllOf(note, HasSubstr("objective.anchor recomputed"))));
  const std::vector<std::string> all_typed = {"objective.method=dppo_kl", "objective.delta_low=0.05",
                                              "objective.delta_high=null", "objective.aggregation=null"};
  EXPECT_THAT(load(file, all_typed).notes, Not(Contains(note)));
}

TEST(ConfigConsistency, SettingsOfDisabledFeaturesAreNoted) {
  using testing::Contains;
  EXPECT_THAT(load({"reference.estimator=k1"}).notes, Contains(HasSubstr("reference.estimator does nothing")));
  EXPECT_THAT(load({"reference.estimator=k1", "reference.kl_in_reward=0.1"}).notes,
              Contains(HasSubstr("reference.estimator does nothing: reference.kl_coefficient is 0")));
  EXPECT_THAT(load({"reference.kl_in_reward_target=1"}).notes,
              Contains(HasSubstr("reference.kl_in_reward_target does nothing: reference.kl_in_reward is 0")));
  EXPECT_THAT(load({"reference.kl_in_reward=0.1", "reference.kl_in_reward_horizon=300"}).notes,
              Contains(HasSubstr("reference.kl_in_reward_horizon does nothing")));
  for (const std::string key : {"lr=0.5", "batch=4", "noisy_steps=3"})
    EXPECT_THAT(load({"sft." + key}).notes,
                Contains(HasSubstr("sft." + key.substr(0, key.find('=')) + " does nothing")));
  EXPECT_THAT(load({"reward.overlong_penalty=3"}).notes,
              Contains("reward.overlong_penalty does nothing: reward.overlong_buffer is 0"));
  EXPECT_THAT(load({R"(reward.functions=["math", "overlong:4096,512"])", "rollout.max_new_tokens=12"}).notes,
              Contains("reward.functions: overlong:4096,512 does nothing: no completion has more than 12 tokens"));
  EXPECT_THAT(load({"reward.weights=[0]"}).notes, Contains(HasSubstr("reward.weights are all 0")));
  EXPECT_THAT(
      load({R"(reward.functions=["math", "overlong:12,4"])", "reward.weights=[0, 1]", "rollout.max_new_tokens=12"})
          .notes,
      testing::IsEmpty());
  EXPECT_THAT(
      load({"reward.overlong_penalty=3", "reward.overlong_buffer=4", "checkpoint.best_metric=eval/accuracy"}).notes,
      testing::IsEmpty());
  EXPECT_THAT(load({"reference.estimator=k1", "reference.kl_coefficient=0.1", "sft.lr=0.5", "sft.steps=2"}).notes,
              Not(Contains(HasSubstr("does nothing"))));
}

TEST(ConfigConsistency, EvaluationRowsAreNotInTheSupervisedPhase) {
  const std::vector<std::string> both = {"sft.files=[a.jsonl]", "sft.steps=2", "data.files=[a.jsonl]",
                                         "rollout.max_new_tokens=8"};
  const auto with = [&](std::vector<std::string> settings) {
    settings.insert(settings.end(), both.begin(), both.end());
    return settings;
  };
  EXPECT_THAT(refusal_of(with({"data.held_out=0.2"})),
              AllOf(HasSubstr("a.jsonl is in sft.files too"), HasSubstr("set sft.held_out to 0.2")));
  EXPECT_THAT(refusal_of(with({"data.held_out=0.2", "sft.held_out=0.1"})), HasSubstr("set sft.held_out to 0.2"));
  EXPECT_THAT(load(with({"data.held_out=0.2", "sft.held_out=0.2"})).notes, Not(Contains(HasSubstr("learned"))));
  for (const std::string section : {"data", "sft"})
    EXPECT_THAT(load(with({section + ".eval_files=[a.jsonl]"})).notes,
                Contains(HasSubstr(section + ".eval_files has a.jsonl, which is in sft.files too")));
}

TEST(ConfigConsistency, BestMetricMustBeAMetricOfAnEvaluationThatHappens) {
  const std::string keep = "checkpoint.best_metric=auto", metric = "checkpoint.best_metric=eval/";
  EXPECT_THAT(refusal_of({keep, "data.files=[a.jsonl]", "rollout.max_new_tokens=8"}),
              AllOf(HasSubstr("checkpoint.best_metric is auto"), HasSubstr("data.held_out")));
  for (const std::string held_out : {"data.held_out=0.1", "data.eval_files=[b.jsonl]"})
    EXPECT_TRUE(
        load({keep, held_out, "data.files=[a.jsonl]", "rollout.max_new_tokens=8"}).config.checkpoint.keeps_best());
  for (const std::string unwritten : {"loss", "pass@4", "count", "avg@1"})
    EXPECT_THAT(refusal_of({metric + unwritten}), HasSubstr("eval.samples 1: eval/accuracy, eval/reward"));
  EXPECT_THAT(refusal_of({metric + "pass@3", "eval.samples=4"}), HasSubstr("eval/avg@4, eval/pass@1, eval/pass@2"));
  EXPECT_THAT(refusal_of({metric + "sums/loss"}), HasSubstr("eval.samples 1"));
  for (const std::string written : {"accuracy", "pass@4", "maj@2", "avg@4"})
    EXPECT_EQ(load({metric + written, "eval.samples=4"}).config.checkpoint.best_metric, "eval/" + written);
  // Files have sources, tasks have none.
  EXPECT_THAT(refusal_of({metric + "sums/avg@1"}), HasSubstr("eval.samples 1"));
  EXPECT_EQ(load({metric + "sums/avg@1", "data.files=[a.jsonl]", "data.held_out=0.1", "rollout.max_new_tokens=8"})
                .config.checkpoint.best_metric,
            "eval/sums/avg@1");
}

TEST(ConfigConsistency, DataSettingsThatATaskIgnoresAreErrors) {
  EXPECT_THAT(refusal_of({"data.system_prompt=hi"}), AllOf(HasSubstr("data.system_prompt"), HasSubstr("chains")));
  EXPECT_THAT(refusal_of({"task.name=countdown", "data.eval_files=[\"a.jsonl\"]"}), HasSubstr("data.eval_files"));
}

TEST(ConfigConsistency, ACriticNeedsAnAdvantageThatUsesItAndViceVersa) {
  EXPECT_THAT(refusal_of({"objective.method=ppo_gae"}), HasSubstr("set critic.body to separate or shared"));
  EXPECT_THAT(refusal_of({"critic.body=separate"}), HasSubstr("the method dppo_tv uses no critic"));
  EXPECT_THAT(refusal_of({"objective.method=ppo_gae", "objective.advantage=rloo", "critic.body=shared"}),
              HasSubstr("the advantage rloo of objective.advantage uses no critic"));
  EXPECT_THAT(refusal_of({"critic.gamma=0.9"}), HasSubstr("critic.gamma is set"));
  EXPECT_THAT(refusal_of({"objective.method=gspo", "objective.advantage=gae", "critic.body=shared"}),
              HasSubstr("decides per sequence"));
  EXPECT_THAT(refusal_of({"objective.method=ppo_gae", "critic.body=shared", "critic.warmup_steps=100"}),
              HasSubstr("the policy would never be trained"));
  EXPECT_THAT(refusal_of({"critic.body=own"}), HasSubstr("one of none, shared, separate"));
  EXPECT_THAT(refusal_of({"critic.lambda=1.5"}), HasSubstr("at most 1"));
  const Config config = load({"objective.advantage=gae", "critic.body=shared", "critic.value_clip=null",
                              "rollout.samples_per_prompt=1"})  // a critic needs no group
                            .config;
  EXPECT_EQ(config.critic.value_clip, std::nullopt);
}

TEST(ConfigConsistency, APromptAndItsCompletionMustFitTheModel) {
  // A chain of 4 operations: <bos>, 5 numbers, 4 operators and "=" are 11 tokens.
  EXPECT_NO_THROW(load({"rollout.max_new_tokens=40", "model.max_positions=51"}));
  const std::string message = refusal_of({"rollout.max_new_tokens=40", "model.max_positions=50"});
  EXPECT_THAT(message, HasSubstr("model.max_positions is 50"));
  EXPECT_THAT(message, HasSubstr("at least 51"));
  // Demonstrations have the length of the task, at most 33 tokens, whatever the length of rollouts.
  EXPECT_NO_THROW(load({"rollout.max_new_tokens=4", "model.max_positions=20"}));
  EXPECT_THAT(refusal_of({"rollout.max_new_tokens=4", "model.max_positions=20", "sft.steps=1"}),
              HasSubstr("at least 44"));
}

TEST(ConfigConsistency, TaskNameAndSizesMustBeValid) {
  EXPECT_THAT(refusal_of({"task.modulus=1"}), HasSubstr("at least 2"));
  EXPECT_THAT(refusal_of({"task.name=chess"}), HasSubstr("command line: task.name \"chess\" is unknown"));
  EXPECT_THAT(refusal_of({"task.name=letters"}), HasSubstr("examples/reasoning_gym/"));
}

TEST(ConfigConsistency, WarmUpListsAndEvaluationsHaveValidSizes) {
  for (const std::string section : {"optimizer", "sft"})
    EXPECT_THAT(refusal_of({section + ".warmup_updates=1.5"}), HasSubstr(section + ".warmup_updates is 1.5"));
  EXPECT_THAT(refusal_of({"sft.noisy_lr=[1]"}), HasSubstr("sft.noisy_lr has 1 numbers; expected 2"));
  EXPECT_THAT(refusal_of({"eval.samples=65536", "eval.prompts=1048576"}), HasSubstr("lower one of the two"));
}

TEST(ConfigConsistency, InvalidSamplingSettingsAreErrors) {
  for (const char* key : {"rollout.samples_per_prompt", "rollout.max_sequences"})
    for (const char* number : {"0", "-1"})
      EXPECT_THAT(refusal_of({std::string(key) + "=" + number}),
                  AllOf(HasSubstr(key), HasSubstr(std::string("got ") + number), HasSubstr("at least 1")));
  for (const char* key : {"rollout.max_new_tokens", "data.max_prompt_tokens"})
    EXPECT_THAT(refusal_of({std::string(key) + "=-1"}), AllOf(HasSubstr(key), HasSubstr("at least 0")));
  for (const char* number : {"0", "-1"})  // greedy decoding has no ratio
    EXPECT_THAT(refusal_of({std::string("rollout.temperature=") + number}),
                AllOf(HasSubstr("rollout.temperature"), HasSubstr("at least 1e-04"),
                      HasSubstr("greedy samples cannot be trained on"), HasSubstr("no ratio pi / mu"),
                      HasSubstr("set eval.temperature=0")));
  EXPECT_THAT(refusal_of({"rollout.temperature=101"}), testing::EndsWith("at most 100"));
  EXPECT_NO_THROW(load({"eval.temperature=0"}));
  EXPECT_THAT(refusal_of({"eval.temperature=0.00001"}),
              AllOf(HasSubstr("eval.temperature is 1e-05"), HasSubstr("expected 0"), HasSubstr("0.0001 to 100")));
  for (const char* none : {"rollout.top_p=0", "rollout.top_k=-1", "rollout.min_p=1.1"})
    EXPECT_THAT(refusal_of({none}), HasSubstr(std::string(none).substr(0, 13)));
  EXPECT_THAT(refusal_of({"rollout.stop_strings=[\"a\", \"\"]"}),
              AllOf(HasSubstr("command line: rollout.stop_strings has an empty string"),
                    HasSubstr("end every completion; remove it")));
}

TEST(ConfigConsistency, SizesAreBoundedSoThatProductsDoNotOverflow) {
  for (const char* key : {"model.hidden_size", "model.layers", "model.heads", "model.max_positions",
                          "train.prompts_per_step", "sft.batch", "rollout.samples_per_prompt", "rollout.max_new_tokens",
                          "train.epochs", "eval.prompts", "run.threads"})
    EXPECT_THAT(refusal_of({std::string(key) + "=4611686018427387904"}), HasSubstr("at most")) << key;
}

}  // namespace
}  // namespace keel
