// Which method a configuration in the names of another program trains with. The expected numbers are those programs'
// documented defaults: verl 0.9.1 (trainer/config/ppo_trainer.yaml, actor/actor.yaml), TRL 1.16.0 (GRPOConfig) and
// OpenRLHF 0.8 (train_ppo_ray.py). tests/parity/foreign_defaults_test.py reads them out of the packages.

#include "keel/train/config/foreign_objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "keel/core/options/read_config.h"
#include "keel/objective/regions/region_settings.h"
#include "keel/train/config/config.h"
#include "tests/support/errors.h"
#include "tests/train/config/loaded_settings.h"

namespace keel {
namespace {

using testing::HasSubstr;

constexpr double kNone = std::numeric_limits<double>::infinity();

Objective objective_of(const Config& config) {
  return make_objective(config.objective, static_cast<double>(longest_completion(config)), config.reference);
}

/// The numbers of the method, without a cap of the ratio that caps nothing.
std::map<std::string, double> numbers_of(const Objective& objective) {
  const auto all = parameters(objective.method.region);
  std::map<std::string, double> numbers(all.begin(), all.end());
  std::erase_if(numbers, [](const auto& number) { return number.first == "ratio_cap" && std::isinf(number.second); });
  return numbers;
}

/// "actor.clip_ratio=0.2" of verl without what all its names begin with.
std::vector<std::string> verl(const std::vector<std::string>& settings) {
  std::vector<std::string> whole;
  for (const std::string& setting : settings)
    whole.push_back(setting.starts_with("actor.") || setting.starts_with("rollout.n") ? "actor_rollout_ref." + setting
                                                                                      : setting);
  return whole;
}

struct Case {
  std::vector<std::string> settings;
  std::string method, advantage, aggregation;
  std::map<std::string, double> numbers;  // all of the method's, as numbers_of has them
};

const std::string kGrpo = "algorithm.adv_estimator=grpo", kMode = "actor.policy_loss.loss_mode=";
const std::map<std::string, double> kVanilla = {{"low", 0.2}, {"high", 0.2}, {"dual", 3}};

const std::vector<Case> kVerl = {
    {{kGrpo, "actor.clip_ratio=0.2"}, "ppo", "grpo", "token_mean", kVanilla},
    {{kGrpo}, "ppo", "grpo", "token_mean", kVanilla},
    {{kGrpo, "rollout.n=4", "actor.loss_agg_mode=seq-mean-token-mean"}, "ppo", "grpo", "seq_mean_token_mean", kVanilla},
    {{kGrpo, kMode + "vanilla"}, "ppo", "grpo", "token_mean", kVanilla},
    {{"algorithm.adv_estimator=rloo"}, "ppo", "rloo", "token_mean", kVanilla},
    {{"algorithm.adv_estimator=reinforce_plus_plus_baseline"}, "ppo", "reinforce_pp_baseline", "token_mean", kVanilla},
    {{kGrpo, "actor.clip_ratio_low=0.1", "actor.clip_ratio_high=0.28", "actor.clip_ratio_c=10"},
     "ppo",
     "grpo",
     "token_mean",
     {{"low", 0.1}, {"high", 0.28}, {"dual", 10}}},
    // DAPO as verl's recipe has it: all three bounds, of which the two win.
    {{kGrpo, "actor.clip_ratio=0.5", "actor.clip_ratio_low=0.2", "actor.clip_ratio_high=0.28"},
     "ppo",
     "grpo",
     "token_mean",
     {{"low", 0.2}, {"high", 0.28}, {"dual", 3}}},
    {{kGrpo, "actor.clip_ratio_high=0.28"}, "ppo", "grpo", "token_mean", {{"low", 0.2}, {"high", 0.28}, {"dual", 3}}},
    // Dr. GRPO as verl's documentation has it.
    {{kGrpo, "algorithm.norm_adv_by_std_in_grpo=false", "actor.loss_agg_mode=seq-mean-token-sum-norm"},
     "ppo",
     "group_mean",
     "seq_mean_token_sum_norm",
     kVanilla},
    // verl's thresholds of DPPO are its clip_ratio too, and its cap is 3 where nobody says otherwise.
    {{kGrpo, kMode + "dppo_tv"},
     "dppo_tv",
     "grpo",
     "token_mean",
     {{"low", 0.2}, {"high", 0.2}, {"ratio_cap", 3}, {"k", 20}}},
    {{kGrpo, kMode + "dppo_kl", "actor.clip_ratio_low=0.05", "actor.clip_ratio_high=0.04", "actor.clip_ratio_c=20"},
     "dppo_kl",
     "grpo",
     "token_mean",
     {{"low", 0.05}, {"high", 0.04}, {"ratio_cap", 20}, {"k", 20}}},
    {{kGrpo, kMode + "gspo"}, "gspo", "grpo", "token_mean", {{"low", 0.2}, {"high", 0.2}}},
    {{kGrpo, kMode + "gspo", "actor.clip_ratio_low=0.0003", "actor.clip_ratio_high=0.0004",
      "actor.loss_agg_mode=seq-mean-token-mean"},
     "gspo",
     "grpo",
     "seq_mean_token_mean",
     {{"low", 0.0003}, {"high", 0.0004}}},
    {{kGrpo, kMode + "cispo"}, "cispo", "grpo", "token_mean", {{"low", 0.2}, {"high", 0.2}}},
    {{kGrpo, kMode + "sapo", "actor.tau_neg=2"},
     "sapo",
     "grpo",
     "seq_mean_token_mean",
     {{"tau_positive", 1}, {"tau_negative", 2}}},
    {{kGrpo, kMode + "geo_mean"}, "gmpo", "grpo", "seq_mean_token_mean", {{"low", 0.2}, {"high", 0.2}}},
    {{kGrpo, kMode + "gpg"}, "pg", "grpo", "token_mean", {}},
    {{kGrpo, kMode + "dro", "actor.policy_loss.dro_beta=0.05"}, "dro", "grpo", "token_mean", {{"beta", 0.05}}},
    {{"rollout.n=4", "critic.body=separate"}, "ppo_gae", "gae", "token_mean", kVanilla},
};

const std::vector<Case> kOthers = {
    {{"num_generations=4"}, "dapo", "grpo", "token_mean", {{"low", 0.2}, {"high", 0.2}, {"dual", kNone}}},
    {{"epsilon=0.1"}, "dapo", "grpo", "token_mean", {{"low", 0.1}, {"high", 0.1}, {"dual", kNone}}},
    {{"epsilon_high=0.28"}, "dapo", "grpo", "token_mean", {{"low", 0.2}, {"high", 0.28}, {"dual", kNone}}},
    {{"loss_type=grpo", "delta=4"}, "grpo", "grpo", "seq_mean_token_mean", {{"low", 0.2}, {"high", 0.2}, {"dual", 4}}},
    {{"loss_type=bnpo"}, "ppo", "grpo", "token_mean", {{"low", 0.2}, {"high", 0.2}, {"dual", kNone}}},
    // TRL's dr_grpo still divides by the deviation, unless it is told not to.
    {{"loss_type=dr_grpo"},
     "dr_grpo",
     "grpo",
     "seq_mean_token_sum_norm",
     {{"low", 0.2}, {"high", 0.2}, {"dual", kNone}}},
    {{"loss_type=dr_grpo", "scale_rewards=none"},
     "dr_grpo",
     "group_mean",
     "seq_mean_token_sum_norm",
     {{"low", 0.2}, {"high", 0.2}, {"dual", kNone}}},
    {{"scale_rewards=false", "beta=0.04"},
     "dapo",
     "group_mean",
     "token_mean",
     {{"low", 0.2}, {"high", 0.2}, {"dual", kNone}}},
    {{"loss_type=cispo", "epsilon_high=5"}, "cispo", "grpo", "token_mean", {{"low", kNone}, {"high", 4}}},
    {{"loss_type=sapo", "sapo_temperature_neg=1.5"},
     "sapo",
     "grpo",
     "seq_mean_token_mean",
     {{"tau_positive", 1}, {"tau_negative", 1.5}}},
    {{"loss_type=vespo", "vespo_k_pos=1.5"},
     "vespo",
     "grpo",
     "token_mean",
     {{"k_positive", 1.5}, {"lambda_positive", 3}, {"k_negative", 3}, {"lambda_negative", 2}}},
    // GSPO as TRL's documentation has it.
    {{"loss_type=grpo", "importance_sampling_level=sequence", "epsilon=0.0003", "epsilon_high=0.0004"},
     "gspo",
     "grpo",
     "seq_mean_token_mean",
     {{"low", 0.0003}, {"high", 0.0004}}},
    {{"loss_type=luspo", "importance_sampling_level=sequence"},
     "gspo",
     "grpo",
     "seq_mean_token_sum",
     {{"low", 0.2}, {"high", 0.2}}},
    {{"cliprange=0.1", "critic.body=shared"},
     "ppo_gae",
     "gae",
     "token_mean",
     {{"low", 0.1}, {"high", 0.1}, {"dual", kNone}}},
    {{"num_ppo_epochs=4", "critic.body=shared"},
     "ppo_gae",
     "gae",
     "token_mean",
     {{"low", 0.2}, {"high", 0.2}, {"dual", kNone}}},
    {{"n_samples_per_prompt=4", "advantage_estimator=group_norm"},
     "ppo",
     "grpo",
     "token_mean",
     {{"low", 0.2}, {"high", 0.2}, {"dual", kNone}}},
    {{"eps_clip_low_high=[0.2, 0.27]", "dual_clip=10", "advantage_estimator=reinforce_baseline"},
     "ppo",
     "reinforce_pp_baseline",
     "token_mean",
     {{"low", 0.2}, {"high", 0.27}, {"dual", 10}}},
    {{"eps_clip=0.1", "policy_loss_type=gspo", "advantage_estimator=dr_grpo"},
     "gspo",
     "group_mean",
     "seq_mean_token_mean",
     {{"low", 0.1}, {"high", 0.1}}},
    {{"eps_clip=0.1", "critic.body=separate"},
     "ppo_gae",
     "gae",
     "token_mean",
     {{"low", 0.1}, {"high", 0.1}, {"dual", kNone}}},
};

void expect_case(const Case& c, const std::vector<std::string>& settings) {
  SCOPED_TRACE(testing::PrintToString(settings));
  const Loaded loaded = load(settings);
  const Objective objective = objective_of(loaded.config);
  EXPECT_EQ(objective.method.name, c.method);
  EXPECT_EQ(objective.method.advantage, c.advantage);
  EXPECT_EQ(objective.method.aggregation, c.aggregation);
  EXPECT_EQ(numbers_of(objective), c.numbers);
  EXPECT_FALSE(loaded.notes.empty());
}

TEST(ForeignObjective, AConfigurationOfVerlTrainsWhatVerlWould) {
  for (const Case& c : kVerl) expect_case(c, verl(c.settings));
}

TEST(ForeignObjective, AConfigurationOfTrlOrOpenRlhfTrainsWhatTheyWould) {
  for (const Case& c : kOthers) expect_case(c, c.settings);
}

TEST(ForeignObjective, WhatIsFilledInIsTold) {
  EXPECT_THAT(
      load({"num_generations=4"}).notes,
      testing::Contains(testing::AllOf(HasSubstr("num_generations is a name of TRL's"), HasSubstr("loss_type dapo"),
                                       HasSubstr("epsilon 0.2"), HasSubstr("objective.method chooses"))));
}

TEST(ForeignObjective, TheCriticOfAnotherProgramHasItsNumbers) {
  const Config verl_ppo = load(verl({"rollout.n=4", "critic.body=separate"})).config;
  EXPECT_EQ(verl_ppo.critic.lambda, 1.0);
  EXPECT_EQ(verl_ppo.critic.gamma, 1.0);
  EXPECT_EQ(verl_ppo.critic.value_clip, 0.5);
  const Config kept =
      load(verl({"rollout.n=4", "critic.body=separate", "critic.value_clip=null", "algorithm.lam=0.9"})).config;
  EXPECT_EQ(kept.critic.value_clip, std::nullopt);
  EXPECT_EQ(kept.critic.lambda, 0.9);
  EXPECT_EQ(load({"cliprange=0.2", "critic.body=shared"}).config.critic.lambda, 0.95);
  EXPECT_EQ(load({"eps_clip=0.2", "critic.body=shared"}).config.critic.lambda, 1.0);
  // Nobody gets a critic, or its cost, unasked.
  EXPECT_THAT(refusal_of(verl({"rollout.n=4"})),
              testing::AllOf(HasSubstr("algorithm.adv_estimator is not set"), HasSubstr("algorithm.adv_estimator=grpo"),
                             HasSubstr("critic.body=separate")));
  EXPECT_THAT(refusal_of({"pretrain=some/model"}), HasSubstr("advantage_estimator=group_norm"));
  EXPECT_THAT(refusal_of({"lam=0.9"}), HasSubstr("critic.body=separate"));
}

TEST(ForeignObjective, AMethodOfOursKeepsItsOwnNumbers) {
  const std::vector<std::vector<std::string>> theirs = {
      verl({"rollout.n=4"}), {"num_generations=4"}, {"n_samples_per_prompt=4"}, {"seed=3", "learning_rate=1e-5"}};
  for (const std::vector<std::string>& names : theirs) {
    std::vector<std::string> settings = names;
    settings.push_back("objective.method=dppo_kl");
    const Objective objective = objective_of(load(settings).config);
    EXPECT_EQ(objective.method.name, "dppo_kl");
    EXPECT_EQ(objective.method.advantage, "group_mean");
    EXPECT_EQ(numbers_of(objective).at("high"), 0.05);
  }
}

// Names that say nothing about an objective say whose file it is.
TEST(ForeignObjective, AFileWhollyInAnothersNamesTrainsWhatThatProgramWould) {
  const std::vector<std::string> trl = {
      "\"learning_rate\": 1e-5", "\"output_dir\": \"x\"", "\"reward_weights\": [1]",
      "\"save_total_limit\": 2", "\"warmup_steps\": 3",   "\"max_grad_norm\": 0.5",
      "\"weight_decay\": 0.1",   "\"adam_beta2\": 0.99",  "\"use_peft\": true, \"lora_r\": 8"};
  for (const std::string& name : trl) {
    SCOPED_TRACE(name);
    const ConfigTree file = parse_config("{" + name + ", \"seed\": 3, \"temperature\": 0.9}", "run.json");
    const Loaded loaded = load(file, {"train.steps=5"});  // what is typed does not make it ours
    EXPECT_EQ(loaded.config.objective.method, "dapo");
    EXPECT_THAT(loaded.notes, testing::Contains(HasSubstr("is a name of TRL's")));
    EXPECT_EQ(load(file, {"objective.method=dppo_tv"}).config.objective.method, "dppo_tv");
  }
  for (const char* verl : {R"({"data": {"train_batch_size": 8}})", R"({"data": {"max_response_length": 8}})",
                           R"({"trainer": {"total_training_steps": 8}})"})
    EXPECT_THAT(error_of(2, [&] { load(parse_config(verl, "run.json"), {}); }),
                testing::AllOf(HasSubstr("verl's default is gae"), HasSubstr("algorithm.adv_estimator=grpo")));
  for (const char* openrlhf : {R"({"train_batch_size": 8})", R"({"save_path": "x"})"})
    EXPECT_THAT(error_of(2, [&] { load(parse_config(openrlhf, "run.json"), {}); }),
                HasSubstr("advantage_estimator=group_norm"));
}

TEST(ForeignObjective, AFileThatHasOurNamesTooIsOurs) {
  const char* ours = R"({"learning_rate": 1e-5, "seed": 3, "temperature": 0.9, "train": {"steps": 5}})";
  EXPECT_EQ(load(parse_config(ours, "run.json"), {}).config.objective.method, "dppo_tv");
  EXPECT_EQ(load({"seed=3", "train.steps=5"}).config.objective.method, "dppo_tv");
}

TEST(ForeignObjective, NamesThatKeelHasTooDoNotMakeAFileOurs) {
  const ConfigTree trl =
      parse_config(R"({"model": {"path": "x"}, "learning_rate": 1e-5, "output_dir": "x"})", "run.json");
  EXPECT_EQ(load(trl, {}).config.objective.method, "dapo");
  const ConfigTree several = parse_config(R"({"model": {"path": "x"}, "temperature": 0.7, "seed": 1})", "run.json");
  EXPECT_THAT(error_of(2, [&] { load(several, {}); }), HasSubstr("set objective.method"));
  const ConfigTree verls = parse_config(
      R"({"data": {"train_files": "d", "prompt_key": "p", "shuffle": true, "max_response_length": 8}})", "run.json");
  EXPECT_THAT(error_of(2, [&] { load(verls, {}); }), HasSubstr("verl's default is gae"));
}

// Where the loss is not named, its averaging is no second word about ours.
TEST(ForeignObjective, AnAggregationOfOursWinsOverThatOfALoss) {
  const char* trl = R"({"num_generations": 4, "objective": {"aggregation": "seq_mean_token_mean"}})";
  const Objective objective = objective_of(load(parse_config(trl, "run.json"), {}).config);
  EXPECT_EQ(objective.method.name, "dapo");
  EXPECT_EQ(objective.method.aggregation, "seq_mean_token_mean");
  EXPECT_EQ(load({"n_samples_per_prompt=4", "advantage_estimator=rloo", "objective.aggregation=seq_mean_token_sum"})
                .config.objective.aggregation,
            "seq_mean_token_sum");
}

TEST(ForeignObjective, NamesThatManyProgramsHaveDoNotSayWhose) {
  for (const char* file : {R"({"seed": 3, "temperature": 0.9})", R"({"model": "x", "temperature": 0.9})"})
    EXPECT_THAT(error_of(2, [&] { load(parse_config(file, "run.json"), {}); }),
                testing::AllOf(testing::StartsWith("run.json:1: temperature"), HasSubstr("set objective.method")));
  EXPECT_THAT(error_of(2, [] { load(parse_config(R"({"learning_rate": 1e-5, "save_path": "x"})", "run.json"), {}); }),
              testing::AllOf(HasSubstr("TRL"), HasSubstr("OpenRLHF"), HasSubstr("set objective.method")));
  EXPECT_EQ(load(parse_config(R"({"model": "x"})", "run.json"), {}).config.objective.method, "dppo_tv");
  // Settings that change nothing here are another program's all the same.
  const char* without_effect = R"({"model": "x", "use_vllm": false, "top_p": 1.0, "report_to": "none"})";
  EXPECT_THAT(error_of(2, [&] { load(parse_config(without_effect, "run.json"), {}); }),
              testing::AllOf(testing::StartsWith("run.json:1: "), HasSubstr("set objective.method")));
  EXPECT_EQ(load(parse_config(without_effect, "run.json"), {"train.steps=1"}).config.objective.method, "dppo_tv");
}

// verl's actor.yaml has 0.2 for all three, and core_algos.py reads clip_ratio only where the other two are null.
TEST(ForeignObjective, AClipRatioThatVerlOverrulesIsRefused) {
  for (const std::string mode : {"vanilla", "dppo_tv", "cispo"})
    EXPECT_THAT(refusal_of(verl({kGrpo, kMode + mode, "actor.clip_ratio=0.3"})),
                testing::AllOf(HasSubstr("clip_ratio is 0.3"), HasSubstr("clip_ratio_low"), HasSubstr("0.2")));
  EXPECT_THAT(refusal_of(verl({kGrpo, "actor.clip_ratio=0.3", "actor.clip_ratio_high=0.28"})),
              HasSubstr("set actor_rollout_ref.actor.clip_ratio_low"));
}

TEST(ForeignObjective, WhereALossIsAveragedOtherwiseItIsTold) {
  const auto notes = [](const std::vector<std::string>& settings) { return load(settings).notes; };
  const auto told = [](const char* text) { return testing::Contains(HasSubstr(text)); };
  // TRL 1.16.0, grpo_trainer.py: the entropy is a mean over tokens whatever the loss.
  for (const char* loss : {"grpo", "dr_grpo", "sapo", "luspo"})
    EXPECT_THAT(notes({std::string("loss_type=") + loss, "entropy_coef=0.01"}), told("whatever loss_type is")) << loss;
  EXPECT_THAT(notes({"loss_type=dapo", "entropy_coef=0.01"}), testing::Not(told("whatever loss_type is")));
  EXPECT_THAT(notes({"loss_type=grpo"}), testing::Not(told("whatever loss_type is")));
  // grpo_trainer.py: an evaluation samples as training does.
  EXPECT_THAT(notes({"loss_type=grpo", "temperature=0.7"}), told("evaluates at it too"));
  EXPECT_THAT(notes({"beta=0.04", "objective.method=grpo"}), told("multiplies each token's KL"));
  // verl 0.9.1, workers/utils/losses.py: KL and entropy by loss_agg_mode, sapo and geo_mean by sequences.
  const char* by_mode = "averages the KL and the entropy";
  for (const char* loss : {"sapo", "geo_mean"}) {
    EXPECT_THAT(notes(verl({kGrpo, kMode + loss, "actor.entropy_coeff=0.01"})), told(by_mode));
    EXPECT_THAT(notes(verl({kGrpo, kMode + loss, "actor.use_kl_loss=true"})), told(by_mode));
    EXPECT_THAT(notes(verl({kGrpo, kMode + loss})), testing::Not(told(by_mode)));
  }
  const std::string by_tokens = "actor.loss_agg_mode=token-mean";
  EXPECT_THAT(refusal_of(verl({kGrpo, kMode + "sapo", by_tokens, "actor.use_kl_loss=true"})), HasSubstr("for a KL"));
  EXPECT_EQ(load(verl({kGrpo, kMode + "geo_mean", by_tokens})).config.objective.aggregation, std::nullopt);
  // 0.9.1 was the first to read loss_agg_mode for gspo.
  EXPECT_THAT(notes(verl({kGrpo, kMode + "gspo"})), told("verl 0.9.1, which is meant here"));
  EXPECT_THAT(notes(verl({kGrpo, kMode + "gspo", "actor.loss_agg_mode=seq-mean-token-mean"})),
              testing::Not(told("verl 0.9.1")));
  EXPECT_THAT(notes(verl({kGrpo, "algorithm.kl_ctrl.kl_coef=0.1"})), told("kl_coef does nothing"));
}

// verl 0.9.1: actor.yaml, rollout.yaml, legacy_data.yaml; TRL 1.16.0 and transformers: linear; OpenRLHF 0.8.
TEST(ForeignObjective, DefaultsThatAreNotTakenOverAreToldUnlessTheyAreSaid) {
  const auto note = [](const std::vector<std::string>& settings) {
    for (const std::string& text : load(settings).notes)
      if (text.starts_with("not as ")) return text;
    return std::string();
  };
  const std::string of_verl = note(verl({kGrpo}));
  for (const char* part :
       {"optim.weight_decay 0.01 (here: optimizer.weight_decay 0.0)", "rollout.n 1 (",
        "ppo_mini_batch_size 256 prompts", "val_kwargs.temperature 0, greedy (here: eval.temperature"})
    EXPECT_THAT(of_verl, HasSubstr(part));
  // verl 0.9.1, agent_loop.py: val_kwargs.temperature is 0 by default, whatever do_sample says.
  EXPECT_THAT(note(verl({kGrpo, "actor_rollout_ref.rollout.val_kwargs.do_sample=true"})),
              HasSubstr("val_kwargs.temperature 0, greedy"));
  EXPECT_THAT(note(verl({kGrpo, "actor_rollout_ref.rollout.val_kwargs.do_sample=false"})),
              testing::Not(HasSubstr("val_kwargs.temperature")));
  const std::string said = note(verl({kGrpo, "rollout.n=4", "eval.temperature=0", "actor.optim.weight_decay=0.01"}));
  for (const char* part : {"weight_decay", "rollout.n", "temperature"})
    EXPECT_THAT(said, testing::Not(HasSubstr(part)));
  EXPECT_THAT(note({"num_generations=4"}), testing::AllOf(HasSubstr("not as TRL would"), HasSubstr("linear")));
  EXPECT_THAT(note({"num_generations=4", "lr_scheduler_type=constant", "generation_batch_size=8",
                    "train.sequences_per_update=8", "eval.samples=4", "checkpoint.keep=3", "train.steps=5"}),
              "");
  // TRL 1.16.0, grpo_config.py: steps_per_generation is generation_batch_size over per_device_train_batch_size, 8.
  EXPECT_THAT(note({"num_generations=4", "generation_batch_size=32"}), HasSubstr("generation_batch_size / 8 updates"));
  EXPECT_THAT(note(verl({"rollout.n=4", "critic.body=separate"})), HasSubstr("critic.optim.lr 1e-5"));
  EXPECT_THAT(note({"n_samples_per_prompt=4", "critic.body=separate"}), HasSubstr("critic_learning_rate 9e-6"));
  // A method of ours does not make the rest of them ours.
  EXPECT_THAT(note({"num_generations=4", "objective.method=grpo"}), HasSubstr("linear"));
  EXPECT_THAT(note({"n_samples_per_prompt=4", "advantage_estimator=group_norm"}),
              testing::AllOf(HasSubstr("cosine"), HasSubstr("0.9, 0.95"), HasSubstr("eval_temperature 0.6"),
                             HasSubstr("eval_n_samples_per_prompt 4")));
  EXPECT_THAT(note({"cliprange=0.2", "critic.body=shared"}),
              testing::AllOf(HasSubstr("num_ppo_epochs 4"), HasSubstr("temperature 0.7")));
}

// verl is started by settings on the command line alone.
TEST(ForeignObjective, NamesOnTheCommandLineSayWhoseConfigurationItIs) {
  const std::vector<std::string> typed = verl({"actor_rollout_ref.model.path=m", "rollout.n=4", kGrpo,
                                               "data.train_files=d.jsonl", "data.max_response_length=8"});
  for (const char* file : {"{}", R"({"data": {"prompt_key": "prompt", "shuffle": true}})",
                           R"({"data": {"val_files": "d.jsonl"}, "trainer": {"total_training_steps": 3}})"}) {
    SCOPED_TRACE(file);
    const Objective objective = objective_of(load(parse_config(file, "run.json"), typed).config);
    EXPECT_EQ(objective.method.name, "ppo");
    EXPECT_EQ(objective.method.aggregation, "token_mean");
    EXPECT_EQ(numbers_of(objective), kVanilla);
  }
  const ConfigTree trl = parse_config(
      R"({"model_name_or_path": "m", "data": {"files": ["d.jsonl"]}, "rollout": {"max_new_tokens": 8}})", "run.json");
  EXPECT_EQ(load(trl, {"num_generations=4", "beta=0.04"}).config.objective.method, "dapo");
  EXPECT_EQ(load(parse_config("{}", "run.json"), {"learning_rate=1e-5", "output_dir=x"}).config.objective.method,
            "dapo");
}

TEST(ForeignObjective, BesideAFileOfOursNamesOnTheCommandLineAskForTheMethod) {
  const ConfigTree ours = parse_config(R"({"train": {"steps": 5}})", "run.json");
  const std::vector<std::vector<std::string>> names = {
      {"num_generations=4"}, {"epsilon=0.2"}, verl({"rollout.n=4"}), verl({"actor.clip_ratio=0.2"})};
  for (const std::vector<std::string>& typed : names)
    EXPECT_THAT(
        error_of(2, [&] { load(ours, typed); }),
        testing::AllOf(testing::StartsWith("command line: "), HasSubstr("train.steps (run.json:1) is one of Keel's"),
                       HasSubstr("set objective.method")));
  EXPECT_EQ(load(ours, {"learning_rate=1e-5"}).config.objective.method, "dppo_tv");
  // A loss that is named there is meant.
  EXPECT_EQ(load(ours, {"loss_type=grpo"}).config.objective.method, "grpo");
  const ConfigTree named = parse_config(R"({"objective": {"method": "dppo_tv", "advantage": null}})", "run.json");
  const Loaded vanilla = load(named, verl({kMode + "vanilla", kGrpo}));
  EXPECT_EQ(numbers_of(objective_of(vanilla.config)), kVanilla);
  EXPECT_EQ(vanilla.config.objective.advantage, "grpo");
  // And ours wins over a file of another program's, whose bounds it does not take for its own.
  const ConfigTree theirs = parse_config(R"({"loss_type": "grpo", "num_generations": 4})", "run.json");
  const Objective dppo = objective_of(load(theirs, {"objective.method=dppo_tv"}).config);
  EXPECT_EQ(dppo.method.aggregation, "seq_mean_token_sum_norm");
  EXPECT_EQ(numbers_of(dppo).at("low"), 0.15);
}

TEST(ForeignObjective, ABoundOfTheRatioIsNeverAnotherThreshold) {
  const std::vector<std::string> bounds = {"epsilon=0.11",
                                           "epsilon_high=0.11",
                                           "cliprange=0.11",
                                           "eps_clip=0.11",
                                           "actor_rollout_ref.actor.clip_ratio=0.11",
                                           "actor_rollout_ref.actor.clip_ratio_low=0.11",
                                           "actor_rollout_ref.actor.clip_ratio_high=0.11"};
  int refused = 0, taken = 0;
  for (const Method& method : methods()) {
    for (const std::string& bound : bounds) {
      SCOPED_TRACE(method.name + " " + bound);
      const std::vector<std::string> settings = {
          "objective.method=" + method.name, bound,
          "critic.body=" + std::string(method.advantage == "gae" ? "shared" : "none")};
      Objective objective;
      try {
        objective = objective_of(load(settings).config);
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("bounds the ratio pi/mu"), HasSubstr("has no bound")));
        ++refused;
        continue;
      }
      ++taken;
      EXPECT_TRUE(properties(method.region).clips_ratio);
      const auto before = parameters(method.region), after = parameters(objective.method.region);
      for (size_t i = 0; i < before.size(); ++i)
        if (before[i].second != after[i].second) {
          EXPECT_TRUE(after[i].first == "low" || after[i].first == "high") << after[i].first;
        }
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(taken, 60);
  // By name: a region that holds a divergence, under each of its own names for the threshold.
  for (const char* method : {"dppo_tv", "dppo_topk_kl", "drpo", "spo", "trm_max", "cppo", "ipo", "prime_rl_default",
                             "minimal_mask", "m2po", "tvpo", "sapo", "icepop_direct"})
    EXPECT_THAT(refusal_of({std::string("objective.method=") + method, "epsilon=0.2"}), HasSubstr("epsilon")) << method;
  // DeepSeek's mask has a threshold of a KL besides, which stays.
  const auto ds = numbers_of(objective_of(load({"objective.method=ds_v32", "epsilon=0.11"}).config));
  EXPECT_EQ(ds, (std::map<std::string, double>{{"low", 0.11}, {"high", 0.11}, {"delta", 0.05}}));
}

TEST(ForeignObjective, WhatTheLossOfTheOtherProgramNeverReadsIsRefused) {
  EXPECT_THAT(refusal_of({"loss_type=sapo", "epsilon=0.3"}), HasSubstr("never reads it"));
  EXPECT_THAT(refusal_of({"loss_type=grpo", "sapo_temperature_pos=2"}), HasSubstr("belongs to TRL's loss sapo"));
  EXPECT_THAT(refusal_of(verl({kGrpo, kMode + "sapo", "actor.clip_ratio=0.2"})), HasSubstr("never reads it"));
  EXPECT_THAT(refusal_of(verl({kGrpo, kMode + "gspo", "actor.clip_ratio_c=3"})), HasSubstr("never reads it"));
  EXPECT_THAT(refusal_of(verl({kGrpo, kMode + "sapo", "actor.loss_agg_mode=token-mean", "actor.entropy_coeff=0.1"})),
              HasSubstr("always averages as seq-mean-token-mean"));
  EXPECT_THAT(refusal_of(verl({kGrpo, kMode + "dro"})), HasSubstr("dro_beta"));
  EXPECT_THAT(refusal_of(verl({kGrpo, kMode + "bypass_mode"})), HasSubstr("objective.method"));
  EXPECT_THAT(refusal_of(verl({kGrpo, "actor.loss_agg_mode=token-sum"})), HasSubstr("objective.aggregation"));
  EXPECT_THAT(refusal_of(verl({"algorithm.adv_estimator=remax"})), HasSubstr("objective.advantage"));
  EXPECT_THAT(refusal_of({"scale_rewards=batch"}), HasSubstr("objective.advantage"));
  // TRL's own default would make every token of its cispo count a fifth.
  EXPECT_THAT(refusal_of({"loss_type=cispo"}), HasSubstr("epsilon_high"));
  EXPECT_THAT(refusal_of({"loss_type=cispo", "epsilon_high=0.28"}), HasSubstr("above 1"));
  EXPECT_THAT(refusal_of({"objective.method=dppo_tv", "importance_sampling_level=sequence"}), HasSubstr("gspo"));
}

TEST(ForeignObjective, WhatCouldMeanTwoMethodsIsAskedFor) {
  EXPECT_THAT(refusal_of({"num_generations=4", "objective.delta=0.1"}),
              testing::AllOf(HasSubstr("objective.delta is set"), HasSubstr("set objective.method")));
  EXPECT_THAT(
      refusal_of(verl({kGrpo, kMode + "gspo", "objective.anchor=recomputed"})),
      HasSubstr("objective.anchor is set beside actor_rollout_ref.actor.policy_loss.loss_mode=gspo, a loss of verl's"));
  std::vector<std::string> two = verl({kGrpo});
  two.push_back("num_generations=4");
  EXPECT_THAT(refusal_of(two), testing::AllOf(HasSubstr("TRL"), HasSubstr("verl"), HasSubstr("set objective.method")));
}

}  // namespace
}  // namespace keel
