// The learning rate's schedule and a run's length, in the words of TRL 1.16.0 on transformers 5.22 (TrainingArguments,
// optimization.py), verl 0.9.1 (trainer/config/optim/fsdp.yaml) and OpenRLHF 0.8 (cli/train_ppo_ray.py).

#include "keel/train/config/foreign_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/train/config/sft_settings.h"
#include "tests/train/config/loaded_settings.h"

namespace keel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

OptimizerOptions optimizer(std::vector<std::string> settings) {
  settings.push_back("objective.method=dppo_tv");
  return load(settings).config.optimizer;
}

TrainOptions length(std::vector<std::string> settings, const std::string& file = "") {
  for (const char* plain : {"objective.method=dppo_tv", R"(data.files=["a.jsonl"])", "rollout.max_new_tokens=8"})
    settings.push_back(plain);
  return load(parse_config(file.empty() ? "{}" : file, "run.json"), settings).config.train;
}

TEST(ScheduleAliases, TrlsWordsAreThoseOfTransformers) {
  for (const auto& [word, ours] : {std::pair{"constant", "constant"},
                                   {"constant_with_warmup", "constant"},
                                   {"linear", "linear"},
                                   {"cosine", "cosine"}})
    EXPECT_EQ(optimizer({std::string("lr_scheduler_type=") + word}).schedule, ours);
  for (const std::string word : {"polynomial", "cosine_with_restarts", "inverse_sqrt", "reduce_lr_on_plateau"})
    EXPECT_THAT(refusal_of({"lr_scheduler_type=" + word, "objective.method=dppo_tv"}),
                AllOf(HasSubstr("\"" + word + "\""), HasSubstr("constant, linear or cosine"),
                      HasSubstr("give it one of these")));
}

TEST(ScheduleAliases, TrlsFloorIsARateOrAShareOfIt) {
  const OptimizerOptions share =
      optimizer({"lr_scheduler_type=cosine_with_min_lr", "lr_scheduler_kwargs={\"min_lr_rate\": 0.2}"});
  EXPECT_EQ(share.schedule, "cosine");
  EXPECT_EQ(share.min_lr_ratio, 0.2);
  EXPECT_EQ(optimizer({"lr_scheduler_type=cosine_with_min_lr", "lr_scheduler_kwargs.min_lr=1e-6", "learning_rate=4e-6"})
                .min_lr_ratio,
            0.25);
  EXPECT_THAT(refusal_of({"lr_scheduler_type=cosine_with_min_lr", "objective.method=dppo_tv"}),
              HasSubstr("min_lr_rate"));
  EXPECT_THAT(refusal_of({"lr_scheduler_type=cosine_with_min_lr", "lr_scheduler_kwargs.min_lr=1", "learning_rate=4e-6",
                          "objective.method=dppo_tv"}),
              HasSubstr("at most the learning rate"));
}

// TrainingArguments.get_warmup_steps: below 1 it is a share; warmup_ratio, of transformers 4, gives way to it.
TEST(ScheduleAliases, TrlsWarmUpIsANumberOfUpdatesOrAShareOfThem) {
  EXPECT_EQ(optimizer({"warmup_steps=5"}).warmup_updates, 5);
  EXPECT_EQ(optimizer({"warmup_steps=5.0"}).warmup_updates, 5);
  EXPECT_EQ(optimizer({"warmup_steps=0"}).warmup_updates, 0);
  EXPECT_EQ(optimizer({"warmup_steps=0.05"}).warmup_ratio, 0.05);
  EXPECT_EQ(optimizer({"warmup_ratio=0.03"}).warmup_ratio, 0.03);
  const OptimizerOptions both = optimizer({"warmup_ratio=0.03", "warmup_steps=5"});
  EXPECT_EQ(both.warmup_updates, 5);
  EXPECT_EQ(both.warmup_ratio, 0);
  EXPECT_EQ(optimizer({"warmup_ratio=0.03", "warmup_steps=0"}).warmup_ratio, 0.03);
  // get_scheduler gives "constant" no warm-up; "constant_with_warmup" has one.
  EXPECT_EQ(optimizer({"lr_scheduler_type=constant", "warmup_steps=5"}).warmup_updates, 0);
  EXPECT_EQ(optimizer({"lr_scheduler_type=constant", "warmup_ratio=0.1"}).warmup_ratio, 0);
  EXPECT_EQ(optimizer({"lr_scheduler_type=constant_with_warmup", "warmup_steps=5"}).warmup_updates, 5);
}

// verl steps its scheduler once for a rollout batch (here of 4 x 8 completions, in 2 passes of 2 updates), and
// lr_warmup_steps of -1, 0 or null leaves the warm-up to lr_warmup_steps_ratio.
TEST(ScheduleAliases, VerlsWarmUpIsANumberOfBatches) {
  const std::string optim = "actor_rollout_ref.actor.optim.";
  const std::vector<std::string> sizes = {"data.train_batch_size=4", "actor_rollout_ref.rollout.n=8",
                                          "actor_rollout_ref.actor.ppo_mini_batch_size=2",
                                          "actor_rollout_ref.actor.ppo_epochs=2"};
  const auto of_sizes = [&](std::vector<std::string> settings) {
    settings.insert(settings.end(), sizes.begin(), sizes.end());
    return optimizer(settings);
  };
  EXPECT_EQ(of_sizes({optim + "lr_warmup_steps=3"}).warmup_updates, 12);
  EXPECT_EQ(optimizer({optim + "lr_warmup_steps=3"}).warmup_updates, 3);  // one update for each
  const OptimizerOptions both = of_sizes({optim + "lr_warmup_steps=3", optim + "lr_warmup_steps_ratio=0.1"});
  EXPECT_EQ(both.warmup_updates, 12);
  EXPECT_EQ(both.warmup_ratio, 0);
  for (const std::string none : {"-1", "0", "null"})
    EXPECT_EQ(of_sizes({optim + "lr_warmup_steps=" + none, optim + "lr_warmup_steps_ratio=0.1"}).warmup_ratio, 0.1);
  for (const std::string name : {"lr_scheduler_type", "warmup_style"})
    EXPECT_EQ(of_sizes({optim + name + "=cosine", optim + "min_lr_ratio=0.1"}).schedule, "cosine");
  EXPECT_EQ(of_sizes({optim + "lr_scheduler_type=cosine", optim + "min_lr_ratio=0.1"}).min_lr_ratio, 0.1);
  EXPECT_EQ(of_sizes({optim + "warmup_style=null", optim + "min_lr_ratio=null"}).schedule, "constant");
}

TEST(ScheduleAliases, OpenRlhfsCosineEndsAtATenth) {
  const OptimizerOptions floored = optimizer({"lr_scheduler=cosine_with_min_lr", "lr_warmup_ratio=0.03"});
  EXPECT_EQ(floored.schedule, "cosine");
  EXPECT_EQ(floored.min_lr_ratio, 0.1);
  EXPECT_EQ(floored.warmup_ratio, 0.03);
  EXPECT_EQ(optimizer({"lr_scheduler=cosine"}).min_lr_ratio, 0);
}

TEST(Schedule, TwoWarmUpsAreRefusedAndAFloorOfAConstantRateIsTold) {
  EXPECT_THAT(refusal_of({"optimizer.warmup_updates=3", "optimizer.warmup_ratio=0.1"}),
              HasSubstr("remove one of the two"));
  EXPECT_THAT(load({"optimizer.min_lr_ratio=0.1"}).notes,
              testing::Contains(HasSubstr("optimizer.min_lr_ratio does nothing")));
  EXPECT_THAT(refusal_of({"optimizer.schedule=polynomial"}), HasSubstr("constant, linear"));
}

// verl 0.9.1, workers/engine_workers.py: the scheduler is stepped after the last mini-batch of a step.
TEST(ScheduleAliases, ARateOfVerlsMovesOnceAStep) {
  const auto per = [](std::vector<std::string> settings) {
    for (std::string& setting : settings) setting.insert(0, "actor_rollout_ref.actor.optim.");
    return optimizer(settings).schedule_per;
  };
  EXPECT_EQ(per({"lr_warmup_steps=2"}), "step");
  EXPECT_EQ(per({"lr_warmup_steps=-1", "lr_warmup_steps_ratio=0.1", "lr_scheduler_type=constant"}), "step");
  EXPECT_EQ(per({"lr_scheduler_type=cosine"}), "step");
  EXPECT_EQ(per({"warmup_style=cosine", "lr_warmup_steps=2"}), "step");
  EXPECT_EQ(per({"lr_warmup_steps=-1", "lr_scheduler_type=constant"}), "update");
  EXPECT_EQ(per({"lr=0.1"}), "update");
  EXPECT_EQ(optimizer({"lr_scheduler_type=cosine", "warmup_steps=2"}).schedule_per, "update");  // TRL's
  const std::string warmup = "actor_rollout_ref.actor.optim.lr_warmup_steps=2";
  EXPECT_EQ(optimizer({warmup, "optimizer.schedule_per=update"}).schedule_per, "update");
  EXPECT_THAT(load({"optimizer.schedule_per=step"}).notes,
              testing::Contains(HasSubstr("optimizer.schedule_per does nothing")));
}

TEST(RunLength, PassesOverTheDataAreTakenOverAndStepsWin) {
  for (const std::string name : {"num_train_epochs", "trainer.total_epochs", "num_episodes", "train.data_epochs"}) {
    const TrainOptions said = length({name + "=1.5"});
    EXPECT_EQ(said.data_epochs, 1.5) << name;
    EXPECT_EQ(said.steps, 0) << name << ": not known before the data is open";
  }
  for (const std::string steps : {"trainer.total_training_steps=5", "train.steps=5"}) {
    const TrainOptions said = length({"trainer.total_epochs=2", steps});
    EXPECT_EQ(said.data_epochs, std::nullopt);
    EXPECT_EQ(said.steps, 5);
  }
  EXPECT_EQ(length({"trainer.total_epochs=2", "trainer.total_training_steps=null"}).data_epochs, 2);
  // Trainer: max_steps counts above 0, else num_train_epochs.
  for (const std::string none : {"max_steps=-1", "max_steps=0", "max_steps=null"}) {
    const TrainOptions said = length({"num_train_epochs=2", none});
    EXPECT_EQ(said.data_epochs, 2) << none;
    EXPECT_EQ(said.steps, 0) << none;
  }
}

TEST(RunLength, WhatIsTypedWinsOverTheFile) {
  const TrainOptions steps = length({"train.steps=5"}, R"({"train": {"data_epochs": 2}})");
  EXPECT_EQ(steps.data_epochs, std::nullopt);
  EXPECT_EQ(steps.steps, 5);
  const TrainOptions epochs = length({"train.data_epochs=2"}, R"({"train": {"steps": 5}})");
  EXPECT_EQ(epochs.data_epochs, 2);
  EXPECT_EQ(epochs.steps, 0);
  const TrainOptions both = length({}, R"({"train": {"steps": 5, "data_epochs": 2}})");  // as a run's own file says it
  EXPECT_EQ(both.data_epochs, 2);
  EXPECT_EQ(both.steps, 5);
  EXPECT_EQ(length({"num_train_epochs=2"}, R"({"train": {"steps": 5}})").data_epochs, 2);
  for (const auto& [passes, file] : {std::pair{"num_train_epochs=2", R"({"max_steps": 5})"},
                                     {"trainer.total_epochs=2", R"({"trainer": {"total_training_steps": 5}})"}}) {
    EXPECT_EQ(length({passes}, file).data_epochs, 2);
    EXPECT_EQ(length({passes}, file).steps, 0);
    EXPECT_THAT(load(parse_config(file, "run.json"),
                     {passes, "objective.method=dppo_tv", "data.files=[a.jsonl]", "rollout.max_new_tokens=8"})
                    .notes,
                testing::Not(testing::Contains(HasSubstr("train.steps"))));
  }
  EXPECT_EQ(length({}, R"({"train": {"steps": 5}, "num_train_epochs": 2})").data_epochs, std::nullopt);
  EXPECT_EQ(length({}).steps, 100);
}

// What is typed for `keel sft`, the message that it meets, and so on to one that is taken.
TEST(ScheduleAliases, TheWayOutOfAnSftScheduleLeadsToSectionSft) {
  const auto refused = [](const std::string& typed) {
    return error_of(2, [&] {
      ConfigTree tree = parse_config(R"({"model": "m", "data": {"files": ["a.jsonl"]}})", "run.json");
      apply_override(tree, typed);
      std::vector<std::string> notes;
      load_config(as_sft(std::move(tree), notes), notes);
    });
  };
  for (const std::string word : {"cosine", "cosine_with_min_lr", "polynomial"})
    EXPECT_THAT(refused("lr_scheduler_type=" + word),
                AllOf(HasSubstr("set sft.schedule"), Not(HasSubstr("or optimizer"))));
  EXPECT_THAT(refused("optimizer.min_lr_ratio=0.1"), HasSubstr("set sft.min_lr_ratio"));
  EXPECT_THAT(refused("lr_scheduler_kwargs.min_lr_rate=0.1"), HasSubstr("set sft.min_lr_ratio"));
  EXPECT_THAT(refused("warmup_steps=0.1"), HasSubstr("set sft.warmup_ratio"));
  EXPECT_THAT(refused("sft.schedule=polynomial"), HasSubstr("constant, linear, cosine"));
}

TEST(RunLength, OfNoStepsAndSomePassesIsRefused) {
  EXPECT_THAT(error_of(2, [] { length({}, R"({"train": {"steps": 0, "data_epochs": 2}})"); }),
              AllOf(HasSubstr("run.json:1"), HasSubstr("train.steps is 0"), HasSubstr("remove one of the two")));
  EXPECT_EQ(length({"train.steps=0"}, R"({"train": {"data_epochs": 2}})").steps, 0);
}

TEST(RunLength, ATaskHasNoEndToCount) {
  EXPECT_THAT(refusal_of({"train.data_epochs=2"}), AllOf(HasSubstr("chains"), HasSubstr("set train.steps")));
  EXPECT_THAT(refusal_of({"num_train_epochs=2", "objective.method=dppo_tv"}),
              AllOf(HasSubstr("command line"), HasSubstr("train.data_epochs is 2")));
  EXPECT_THAT(refusal_of({"train.data_epochs=0"}), HasSubstr("above 0"));
}

}  // namespace
}  // namespace keel
