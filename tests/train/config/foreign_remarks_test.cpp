// What is told of other programs' names that mean a little more or less than ours.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/core/options/read_config.h"
#include "tests/train/config/loaded_settings.h"

namespace keel {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const std::string kVerlsGrpo = "algorithm.adv_estimator=grpo", kFilter = "algorithm.filter_groups.";

std::vector<std::string> notes(const std::vector<std::string>& settings) { return load(settings).notes; }

TEST(ForeignRemarks, TrlCutPromptsWhereKeelLeavesThemOut) {
  const auto told = Contains(HasSubstr("cut longer prompts from the left, Keel leaves them out"));
  std::vector<std::string> settings = {"model.path=m", R"(data.files=["a.jsonl"])", "num_generations=4",
                                       "max_completion_length=8"};
  EXPECT_THAT(notes(settings), Not(told));
  settings.push_back("max_prompt_length=512");
  EXPECT_THAT(notes(settings), told);
}

// TRL 1.16.0, trainer/utils.py: RepeatSampler keeps chunks of full size alone, before any loader; verl 0.9.1,
// trainer/ppo/ray_trainer.py: the loader of the training rows has drop_last.
TEST(ForeignRemarks, PassesOfTrlAndVerlHaveFullBatchesAlone) {
  const auto told = Contains(HasSubstr("leaves that batch out of every pass"));
  const std::vector<std::string> rows = {"model.path=m", R"(data.files=["a.jsonl"])", "rollout.max_new_tokens=8"};
  const auto notes_with = [&](std::vector<std::string> settings) {
    settings.insert(settings.end(), rows.begin(), rows.end());
    return notes(settings);
  };
  EXPECT_THAT(notes_with({"num_generations=4", "num_train_epochs=2"}),
              testing::AllOf(told, Contains(HasSubstr("whatever dataloader_drop_last is"))));
  EXPECT_THAT(notes_with({"num_generations=4", "num_train_epochs=2", "max_steps=5"}), Not(told));
  EXPECT_THAT(notes_with({"num_generations=4"}), Not(told));
  EXPECT_THAT(notes_with({kVerlsGrpo, "trainer.total_epochs=2"}), told);
  EXPECT_THAT(notes_with({kVerlsGrpo, "trainer.total_epochs=2", "trainer.total_training_steps=9"}), Not(told));
}

// OpenRLHF 0.8, dynamic_filtering: a group is kept where dynamic_filtering_reward_range[0] < mean < [1].
TEST(ForeignRemarks, OpenRlhfFiltersByTheMean) {
  const std::vector<std::string> file = {"n_samples_per_prompt=4", "advantage_estimator=group_norm"};
  std::vector<std::string> filtered = file;
  filtered.push_back("dynamic_filtering=true");
  EXPECT_THAT(notes(filtered), Contains(HasSubstr("mean reward is between 0 and 1")));
  EXPECT_THAT(notes(file), Not(Contains(HasSubstr("mean reward"))));
  // Typed beside a file of ours it asks for the method, as verl's name for it does.
  const ConfigTree ours = parse_config(R"({"train": {"steps": 5}})", "run.json");
  for (const std::string typed : {"dynamic_filtering=true", "algorithm.filter_groups.enable=true"})
    EXPECT_THAT(error_of(2, [&] { load(ours, {typed}); }), HasSubstr("set objective.method")) << typed;
}

// verl, trainer/ppo/core_algos.py: gamma and lam are arguments of compute_gae_advantage_return; grpo has no critic.
TEST(ForeignRemarks, VerlReadsTheSettingsOfACriticBesideGaeAlone) {
  for (const std::string name : {"critic.optim.lr", "algorithm.gamma", "algorithm.lam"}) {
    const auto unread = Contains(name + " does nothing: verl reads it only where algorithm.adv_estimator is gae");
    EXPECT_THAT(notes({kVerlsGrpo, name + "=1.0"}), unread);
    EXPECT_THAT(notes({"algorithm.adv_estimator=gae", "critic.body=separate", name + "=1.0"}), Not(unread));
  }
  const auto warm_up = Contains(HasSubstr("trainer.critic_warmup does nothing"));
  EXPECT_THAT(notes({kVerlsGrpo, "trainer.critic_warmup=3"}), warm_up);
  EXPECT_THAT(notes({kVerlsGrpo, "trainer.critic_warmup=0"}), Not(warm_up)) << "off, as most of verl's scripts say";
}

TEST(ForeignRemarks, AnEvaluationIsToldOfWhatItReads) {
  const std::vector<std::string> settings = {"loss_type=grpo",           "learning_rate=1e-5", "beta=0.1",
                                             "max_completion_length=20", "temperature=0.7",    "num_generations=4"};
  ConfigTree tree;
  for (const std::string& setting : settings) apply_override(tree, setting);
  std::vector<std::string> told;
  load_config(tree, told, Purpose::kEvaluation);
  EXPECT_THAT(told, testing::ElementsAre(HasSubstr("Keel at eval.temperature"), HasSubstr("(here: eval.samples 1)"),
                                         HasSubstr("is rollout.max_new_tokens")));
  EXPECT_GT(notes(settings).size(), 7u);
}

TEST(ForeignRemarks, PpoIsTheOneWithoutACritic) {
  const auto told = Contains(HasSubstr("with one it is ppo_gae"));
  EXPECT_THAT(notes({"objective.method=ppo"}), told);
  EXPECT_THAT(notes({"objective.method=ppo", "objective.advantage=rloo"}), Not(told));
  EXPECT_THAT(notes({kVerlsGrpo}), Not(told));
}

// TRL, grpo_trainer.py: grpo, sapo and dr_grpo divide by all rows of the batch, bnpo, dapo and cispo by unmasked
// tokens.
TEST(ForeignRemarks, TrlCountsMaskedCompletionsInItsMeansOverSequences) {
  const std::string masked = "mask_truncated_completions=true";
  for (const std::string loss : {"grpo", "dr_grpo", "sapo"}) {
    EXPECT_THAT(notes({"loss_type=" + loss, masked}), Contains(HasSubstr("TRL divides by all completions"))) << loss;
    EXPECT_THAT(notes({"loss_type=" + loss}), Not(Contains(HasSubstr("divides by all")))) << loss;
  }
  for (const std::string loss : {"dapo", "bnpo", "cispo"})
    EXPECT_THAT(notes({"loss_type=" + loss, masked, "epsilon_high=5"}), Not(Contains(HasSubstr("divides by all"))))
        << loss;
}

// transformers: load_best_model_at_end; metric_for_best_model "loss" where it is not set, less of which is better.
TEST(ForeignRemarks, TrlsBestModelIsNotWhatTheRunStandsFor) {
  const std::string best = "load_best_model_at_end=true", grpo = "loss_type=grpo";
  EXPECT_THAT(notes({grpo, best}), testing::AllOf(Contains(HasSubstr("RUN/checkpoints/best is the best one")),
                                                  Contains(HasSubstr("TRL's default is eval_loss"))));
  EXPECT_THAT(notes({grpo, best, "metric_for_best_model=reward"}), Not(Contains(HasSubstr("eval_loss"))));
  EXPECT_THAT(notes({grpo, "load_best_model_at_end=false"}), Not(Contains(HasSubstr("checkpoints/best"))));
}

// verl, recipe/dapo: max_num_gen_batches 0 is no limit; used up, it raises a ValueError.
TEST(ForeignRemarks, VerlsFilterHasNoLimitAndStopsAtOne) {
  const std::string on = kFilter + "enable=true";
  EXPECT_THAT(notes({kVerlsGrpo, on}),
              testing::AllOf(Contains(HasSubstr("max_num_gen_batches 0, no limit (here: rollout.max_batches 10)")),
                             Contains(HasSubstr("verl ends with an error"))));
  for (const std::string& limit : {kFilter + "max_num_gen_batches=5", std::string("rollout.max_batches=5")})
    EXPECT_THAT(notes({kVerlsGrpo, on, limit}), Not(Contains(HasSubstr("no limit")))) << limit;
  EXPECT_THAT(notes({kVerlsGrpo}), Not(Contains(HasSubstr("max_num_gen_batches"))));
}

TEST(ForeignRemarks, WhatVerlReadsOnlyBesideASwitchIsTold) {
  const std::string buffer = "reward_model.overlong_buffer.", since = "reward.reward_kwargs.overlong_buffer_cfg.",
                    between = "reward_model.reward_kwargs.overlong_buffer_cfg.";
  for (const auto& [setting, its_switch] :
       {std::pair<std::string, std::string>{kFilter + "metric=acc", kFilter + "enable"},
        {kFilter + "max_num_gen_batches=3", kFilter + "enable"},
        {buffer + "len=4", buffer + "enable"},
        {between + "penalty_factor=2.0", between + "enable"},
        {since + "len=4", since + "enable"},
        {"algorithm.kl_penalty=low_var_kl", "algorithm.use_kl_in_reward"},
        {"algorithm.kl_ctrl.target_kl=0.1", "algorithm.use_kl_in_reward"},
        {"algorithm.kl_ctrl.horizon=500", "algorithm.use_kl_in_reward"},
        {"algorithm.kl_ctrl.type=adaptive", "algorithm.use_kl_in_reward"}}) {
    const std::string name = setting.substr(0, setting.find('='));
    EXPECT_THAT(notes({kVerlsGrpo, setting}),
                Contains(name + " does nothing: verl reads it only where " + its_switch + " is true"));
    EXPECT_THAT(notes({kVerlsGrpo}), Not(Contains(HasSubstr(name + " does nothing"))));
  }
}

// verl, core_algos.py: a fixed controller has no target. reward/reward_manager: without a path there is no function.
TEST(ForeignRemarks, WhatVerlReadsOnlyBesideAnotherValueIsTold) {
  const std::string used = "algorithm.use_kl_in_reward=true", target = "algorithm.kl_ctrl.target_kl";
  EXPECT_THAT(notes({kVerlsGrpo, used, target + "=0.2"}),
              Contains(target + " does nothing: verl reads it only where algorithm.kl_ctrl.type is adaptive"));
  EXPECT_THAT(notes({kVerlsGrpo, used, target + "=0.2", "algorithm.kl_ctrl.type=adaptive"}),
              Not(Contains(HasSubstr("does nothing"))));
  for (const std::string section : {"custom_reward_function.", "reward.custom_reward_function."}) {
    EXPECT_THAT(notes({kVerlsGrpo, section + "name=f"}),
                Contains(section + "name does nothing: verl reads it only where " + section + "path is set"));
    EXPECT_THAT(notes({kVerlsGrpo, section + "name=f", section + "path=a.py"}),
                Not(Contains(HasSubstr("does nothing"))));
  }
}

// verl 0.9.1, utils/reward_score/__init__.py, default_compute_score.
TEST(ForeignRemarks, VerlsJudgesOfSourcesAreNotTakenOver) {
  const std::string rows = "data.train_files=rows.parquet", length = "data.max_response_length=8";
  const auto judges = Contains(HasSubstr("verl judges a row by its data_source"));
  EXPECT_THAT(notes({kVerlsGrpo, rows, length}), judges);
  EXPECT_THAT(notes({kVerlsGrpo, rows, length, "custom_reward_function.path=null"}), judges);
  EXPECT_THAT(notes({kVerlsGrpo}), Not(judges)) << "a task has its own reward";
  for (const std::string chosen :
       {"custom_reward_function.path=a.py", "reward.custom_reward_function.path=a.py", R"(reward.functions=["math"])"})
    EXPECT_THAT(notes({kVerlsGrpo, rows, length, chosen}), Not(judges)) << chosen;
}

// transformers' TrainingArguments: num_train_epochs 3.0; verl, ppo_trainer.yaml: total_epochs 30, total_training_steps
// null; OpenRLHF: --num_episodes 1.
TEST(ForeignRemarks, HowLongARunIsIsNotTakenOver) {
  EXPECT_THAT(notes({"num_generations=4"}),
              Contains(HasSubstr("num_train_epochs 3 passes over the data (here: train.steps 100)")));
  EXPECT_THAT(notes({kVerlsGrpo}), Contains(HasSubstr("trainer.total_epochs 30 passes over the data")));
  EXPECT_THAT(notes({"n_samples_per_prompt=4", "advantage_estimator=group_norm"}),
              Contains(HasSubstr("num_episodes 1 pass over the data")));
  for (const std::string steps : {"trainer.total_training_steps=5", "train.steps=5"})
    EXPECT_THAT(notes({kVerlsGrpo, steps}), Not(Contains(HasSubstr("over the data")))) << steps;
}

TEST(ForeignRemarks, KeepingAllCheckpointsIsNotTakenOver) {
  EXPECT_THAT(notes({"num_generations=4"}),
              Contains(HasSubstr("save_total_limit null, all of them (here: checkpoint.keep 2)")));
  EXPECT_THAT(notes({kVerlsGrpo}), Contains(HasSubstr("max_actor_ckpt_to_keep null, all of them")));
  for (const std::string name : {"save_total_limit", "trainer.max_actor_ckpt_to_keep"}) {
    EXPECT_EQ(load({name + "=5", "objective.method=dppo_tv"}).config.checkpoint.keep, 5);
    EXPECT_EQ(load({name + "=null", "objective.method=dppo_tv"}).config.checkpoint.keep, 2) << name;
  }
}

// TRL 1.16.0, rewards/accuracy_rewards.py; open-r1, rewards.py.
TEST(ForeignRemarks, TheAccuracyOfTrlAsksForAForm) {
  const auto kept = [](const std::string& from) { return Contains(HasSubstr("`from " + from + " import")); };
  EXPECT_THAT(notes({"num_generations=4", "reward_funcs=[accuracy_reward]"}), kept("trl.rewards"));
  EXPECT_THAT(notes({"num_generations=4", "reward_funcs=accuracy"}), kept("open_r1.rewards"));
  EXPECT_THAT(notes({"num_generations=4", "reward_funcs=[think_format_reward]"}), Not(Contains(HasSubstr("LaTeX"))));
}

TEST(ForeignRemarks, ARecipeWithoutRewardsIsJudgedByMath) {
  const auto told = Contains(HasSubstr("reward_funcs is not said"));
  const std::vector<std::string> recipe = {"num_generations=4", "dataset_name=a.jsonl", "max_completion_length=8"};
  EXPECT_THAT(notes(recipe), told);
  for (const std::string said : {"reward_funcs=[accuracy_reward]", "reward.functions=[\"digits\"]"})
    EXPECT_THAT(notes({recipe[0], recipe[1], recipe[2], said}), Not(told)) << said;
}

TEST(ForeignRemarks, TrlsBatchesAreThoseOfOneProcess) {
  const auto told = Contains(HasSubstr("num_processes is taken for 1"));
  EXPECT_THAT(notes({"num_generations=4", "per_device_train_batch_size=8"}), told);
  EXPECT_THAT(notes({"num_generations=4", "per_device_train_batch_size=8", "num_processes=1"}), Not(told));
  EXPECT_THAT(notes({"num_generations=4"}), Not(told));
}

// TRL 1.16, compute_loss: num_items_in_batch are the tokens of what was generated at a time.
TEST(ForeignRemarks, TrlAveragesOverAGenerationBatch) {
  const auto told = Contains(HasSubstr("by the batch's tokens and the number of its updates"));
  const std::string batch = "steps_per_generation=8";
  EXPECT_THAT(notes({"num_generations=4", batch}), told);
  EXPECT_THAT(notes({"num_generations=4", batch, "loss_type=grpo"}), Not(told));
  EXPECT_THAT(notes({"num_generations=4"}), Not(told));
}

// TRL 1.16, compute_loss: bnpo divides by the micro-batch's own mask.
TEST(ForeignRemarks, TrlsBnpoAveragesMicroBatches) {
  const auto told = Contains(HasSubstr("tokens of each micro-batch"));
  EXPECT_THAT(notes({"num_generations=4", "loss_type=bnpo", "gradient_accumulation_steps=4"}), told);
  EXPECT_THAT(notes({"num_generations=4", "loss_type=bnpo", "gradient_accumulation_steps=1"}), Not(told));
  EXPECT_THAT(notes({"num_generations=4", "loss_type=dapo", "gradient_accumulation_steps=4"}), Not(told));
}

// TRL 1.16, scripts/grpo.py: eval_dataset is dataset[dataset_test_split] where eval_strategy is not no; transformers'
// Trainer raises a ValueError where it is to evaluate and has no eval_dataset.
TEST(ForeignRemarks, AnEvaluationWithoutRowsIsTold) {
  const auto told = Contains(HasSubstr("nothing is evaluated without data.eval_files or data.held_out"));
  const auto notes_with = [](std::vector<std::string> settings) {
    for (const char* setting : {"model.path=m", "num_generations=4", "max_completion_length=8"})
      settings.push_back(setting);
    return notes(settings);
  };
  const std::string rows = "dataset_name=a.jsonl", steps = "eval_strategy=steps";
  EXPECT_THAT(notes_with({rows, steps, "eval_steps=2"}), told);
  EXPECT_THAT(notes_with({R"(data.files=["a.jsonl"])", "evaluation_strategy=epoch"}), told);
  EXPECT_THAT(notes_with({rows, steps, R"(data.eval_files=["b.jsonl"])"}), Not(told));
  EXPECT_THAT(notes_with({rows, steps, "data.held_out=0.1"}), Not(told));
  EXPECT_THAT(notes_with({rows, "eval_strategy=no", "eval_steps=2"}), Not(told));
  EXPECT_THAT(notes_with({rows}), Not(told));
}

// Python, and Jinja with it: bool("false") is True, `"false" is false` is not. verl hands the mapping on as it is.
TEST(ForeignRemarks, ATextThatSpellsAValueIsTold) {
  const auto told = [](const std::string& word) {
    return Contains(HasSubstr(word + " is a text, which a chat template takes for true"));
  };
  const auto notes_with = [](const std::string& words) {
    return notes({kVerlsGrpo, "data.apply_chat_template_kwargs=" + words, "model.path=m",
                  R"(data.train_files=["a.jsonl"])", "data.max_response_length=8"});
  };
  for (const char* text : {"false", "False", "TRUE", "no", "null"})
    EXPECT_THAT(notes_with(R"({"enable_thinking": ")" + std::string(text) + R"("})"),
                told(R"(enable_thinking=")" + std::string(text) + "\""));
  EXPECT_THAT(notes_with(R"({"enable_thinking": false, "style": "plain"})"), Not(told("")));
}

// verl 0.9.1, trainer/config/critic/critic.yaml: optim is its own, constant, without warm-up, weight decay 0.01.
TEST(ForeignRemarks, VerlsCriticHasAScheduleOfItsOwn) {
  const auto told = Contains(HasSubstr("critic follows the policy's schedule"));
  const std::string gae = "algorithm.adv_estimator=gae", critic = "critic.body=separate",
                    optim = "actor_rollout_ref.actor.optim.";
  for (const char* moved : {"lr_warmup_steps=2", "lr_warmup_steps_ratio=0.1", "lr_scheduler_type=cosine",
                            "warmup_style=cosine", "weight_decay=0.1"}) {
    EXPECT_THAT(notes({gae, critic, optim + moved}), told) << moved;
    EXPECT_THAT(notes({kVerlsGrpo, optim + moved}), Not(told)) << moved;
  }
  for (const char* same : {"lr_warmup_steps=-1", "lr_scheduler_type=constant", "weight_decay=0.01", "lr=1e-6"})
    EXPECT_THAT(notes({gae, critic, optim + same}), Not(told)) << same;
}

}  // namespace
}  // namespace keel
