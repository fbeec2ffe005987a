// Names of verl whose meaning depends on others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/core/options/read_config.h"
#include "keel/train/config/config.h"
#include "keel/train/config/foreign_objective.h"
#include "tests/train/config/loaded_settings.h"

namespace keel {
namespace {

using testing::HasSubstr;

TEST(ConfigAliases, VerlsCispoKeepsVerlsBounds) {
  const std::string actor = "actor_rollout_ref.actor.", cispo = actor + "policy_loss.loss_mode=cispo";
  const auto bounds = [&](std::vector<std::string> settings) {
    if (settings[0] == cispo) settings.push_back("algorithm.adv_estimator=grpo");
    const Config config = load(settings).config;
    const TrustRegion region = make_objective(config.objective, 1).method.region;
    return std::pair{std::get<Cispo>(region).low, std::get<Cispo>(region).high};
  };
  EXPECT_EQ(bounds({cispo}), (std::pair{0.2, 0.2}));  // of verl's actor.yaml
  EXPECT_EQ(bounds({cispo, actor + "clip_ratio_high=0.28"}), (std::pair{0.2, 0.28}));
  EXPECT_EQ(bounds({cispo, actor + "clip_ratio_low=0.1"}), (std::pair{0.1, 0.2}));
  EXPECT_EQ(bounds({cispo, "objective.delta_low=0.1", "objective.delta_high=4"}), (std::pair{0.1, 4.0}));
  EXPECT_EQ(bounds({cispo, "objective.delta_high=4"}), (std::pair{0.2, 4.0}));
  EXPECT_EQ(bounds({"objective.method=cispo"}), (std::pair{kUnlimited, 0.28}));  // as published
}

// verl/utils/dataset/rl_dataset.py: what is filtered out is never truncated.
TEST(ConfigAliases, VerlsTruncationByAnErrorCutsNothing) {
  const std::string grpo = "algorithm.adv_estimator=grpo", filter = "data.filter_overlong_prompts=true";
  const Config config =
      load({grpo, filter, "data.truncation=error", "data.max_prompt_length=64", "actor_rollout_ref.model.path=m",
            "data.train_files=a.jsonl", "data.max_response_length=8"})
          .config;
  EXPECT_EQ(config.data.max_prompt_tokens, 64);
  EXPECT_THAT(refusal_of({grpo, "data.truncation=left"}), HasSubstr("never cuts"));
}

TEST(ConfigAliases, TheKlOfVerlIsOnlyThereWhereItIsUsed) {
  const std::string actor = "actor_rollout_ref.actor.";
  const auto reference = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> whole;
    for (const std::string& setting : settings) whole.push_back(actor + setting);
    whole.push_back("algorithm.adv_estimator=grpo");
    return load(whole).config.reference;
  };
  EXPECT_EQ(reference({"use_kl_loss=false", "kl_loss_coef=0.5"}).kl_coefficient, 0);
  EXPECT_EQ(reference({"use_kl_loss=true", "kl_loss_coef=0.5"}).kl_coefficient, 0.5);
  EXPECT_EQ(reference({"use_kl_loss=false"}).kl_coefficient, 0);
  EXPECT_EQ(reference({"kl_loss_type=low_var_kl"}).estimator, "k3");
  EXPECT_EQ(reference({"kl_loss_type=kl"}).estimator, "k1");
  const auto refusal = [&](const std::string& setting) {
    return refusal_of({setting, "algorithm.adv_estimator=grpo"});
  };
  EXPECT_THAT(refusal(actor + "kl_loss_type=abs"), HasSubstr("reference.estimator"));
  EXPECT_THAT(refusal(actor + "use_kl_loss=2"), HasSubstr("true or false"));
  EXPECT_THAT(refusal(actor + "kl_loss_coef=0.5"), HasSubstr("use_kl_loss is true"));  // verl's default: false
}

// verl 0.9.1, trainer/config/algorithm.py: use_kl_in_reward False, kl_penalty "kl"; KLControlConfig: type "fixed",
// kl_coef 0.001, horizon 10000, target_kl 0.1.
TEST(ConfigAliases, TheKlInTheRewardOfVerlIsThereWhereItIsUsed) {
  const auto reference = [](std::vector<std::string> settings) {
    for (std::string& setting : settings) setting = "algorithm." + setting;
    settings.push_back("algorithm.adv_estimator=grpo");
    return load(settings).config.reference;
  };
  const std::string used = "use_kl_in_reward=true";
  EXPECT_EQ(reference({"use_kl_in_reward=false", "kl_ctrl.kl_coef=0.5"}).kl_in_reward, 0);
  EXPECT_EQ(reference({"kl_ctrl.kl_coef=0.5", "kl_ctrl.type=adaptive"}).kl_in_reward, 0);
  EXPECT_EQ(reference({used}).kl_in_reward, 0.001);
  EXPECT_EQ(reference({used}).kl_coefficient, 0);
  EXPECT_EQ(reference({used}).kl_in_reward_estimator, "k1");
  EXPECT_EQ(reference({used}).kl_in_reward_target, std::nullopt);
  EXPECT_EQ(reference({used, "kl_ctrl.kl_coef=0.5", "kl_penalty=low_var_kl"}).kl_in_reward, 0.5);
  EXPECT_EQ(reference({used, "kl_penalty=low_var_kl"}).kl_in_reward_estimator, "k3");
  EXPECT_EQ(reference({used, "kl_ctrl.type=fixed", "kl_ctrl.target_kl=0.2"}).kl_in_reward_target, std::nullopt);
  EXPECT_EQ(reference({used, "kl_ctrl.type=adaptive"}).kl_in_reward_target, 0.1);
  const ReferenceOptions moving =
      reference({used, "kl_ctrl.type=adaptive", "kl_ctrl.target_kl=0.2", "kl_ctrl.horizon=500"});
  EXPECT_EQ(moving.kl_in_reward_target, 0.2);
  EXPECT_EQ(moving.kl_in_reward_horizon, 500);
  const auto refusal = [&](const std::string& setting) {
    return refusal_of({"algorithm." + used, "algorithm.adv_estimator=grpo", setting});
  };
  EXPECT_THAT(refusal("algorithm.kl_penalty=abs"), HasSubstr("reference.kl_in_reward_estimator"));
  EXPECT_THAT(refusal("algorithm.kl_ctrl.type=cosine"), HasSubstr("wanted fixed or adaptive"));
  EXPECT_THAT(refusal_of({"algorithm.use_kl_in_reward=2", "algorithm.adv_estimator=grpo"}), HasSubstr("true or false"));
}

TEST(ConfigAliases, TheSoftPenaltyOfVerlIsThereWhereItIsEnabled) {
  for (const std::string section : {"reward_model.overlong_buffer", "reward_model.reward_kwargs.overlong_buffer_cfg",
                                    "reward.reward_kwargs.overlong_buffer_cfg"}) {
    SCOPED_TRACE(section);
    const auto reward = [&](std::vector<std::string> settings) {
      for (std::string& setting : settings) setting = section + "." + setting;
      settings.push_back("algorithm.adv_estimator=grpo");
      settings.push_back("data.max_response_length=64");
      return load(settings).config.reward;
    };
    const RewardOptions on = reward({"enable=true", "len=16", "penalty_factor=0.5", "log=true"});
    EXPECT_EQ(on.overlong_buffer, 16);
    EXPECT_EQ(on.overlong_penalty, 0.5);
    const RewardOptions off = reward({"enable=false", "len=16", "penalty_factor=0.5"});
    EXPECT_EQ(off.overlong_buffer, 0);
    EXPECT_EQ(off.overlong_penalty, 1);
    EXPECT_EQ(reward({"len=16"}).overlong_buffer, 0);  // verl's default: not enabled
    EXPECT_THAT(refusal_of({section + ".enable=true", "algorithm.adv_estimator=grpo"}), HasSubstr(section + ".len"));
    EXPECT_THAT(refusal_of({section + ".enable=true", section + ".len=0", "algorithm.adv_estimator=grpo"}),
                HasSubstr("is 0; raise it"));
  }
}

TEST(ConfigAliases, TheFilterOfVerlIsReadWhereItIsOn) {
  const std::string filter = "algorithm.filter_groups.", on = filter + "enable=true",
                    grpo = "algorithm.adv_estimator=grpo";
  const auto rollout = [&](std::vector<std::string> settings) {
    settings.push_back(grpo);
    return load(settings).config.rollout;
  };
  const RolloutOptions dapo = rollout({on, filter + "metric=seq_reward", filter + "max_num_gen_batches=7"});
  EXPECT_TRUE(dapo.dynamic_sampling);
  EXPECT_EQ(dapo.max_batches, 7);
  const RolloutOptions off =
      rollout({filter + "enable=false", filter + "metric=acc", filter + "max_num_gen_batches=0"});
  EXPECT_FALSE(off.dynamic_sampling);
  EXPECT_EQ(off.max_batches, RolloutOptions().max_batches);
  EXPECT_FALSE(rollout({filter + "max_num_gen_batches=7"}).dynamic_sampling);  // verl's default: off
  EXPECT_THAT(refusal_of({on, filter + "metric=acc", grpo}), HasSubstr("set it to seq_reward"));
  EXPECT_THAT(refusal_of({on, filter + "max_num_gen_batches=0", grpo}), HasSubstr("set rollout.max_batches"));
}

// verl, recipe/dapo/dapo_ray_trainer.py: seq_final_reward is token_level_rewards, after the KL; seq_reward
// token_level_scores; reward_manager/dapo.py: score is what compute_score says, before the overlong penalty.
TEST(ConfigAliases, TheMetricOfVerlsFilterIsRefusedWhereItIsAnother) {
  const std::string metric = "algorithm.filter_groups.metric=", kl = "algorithm.use_kl_in_reward=true",
                    no_kl = "algorithm.kl_ctrl.kl_coef=0", buffer = "reward_model.overlong_buffer.";
  const auto with = [&](std::vector<std::string> settings) {
    settings.insert(settings.end(), {"algorithm.filter_groups.enable=true", "algorithm.adv_estimator=grpo"});
    return settings;
  };
  const std::vector<std::string> penalty = {buffer + "enable=true", buffer + "len=4", "data.max_response_length=16"};
  const auto penalised = [&](const std::string& setting) {
    std::vector<std::string> settings = penalty;
    settings.push_back(setting);
    return with(settings);
  };
  for (const std::vector<std::string>& same :
       {with({metric + "seq_final_reward"}), with({metric + "seq_final_reward", kl, no_kl}), with({metric + "score"}),
        with({metric + "seq_reward", kl}), penalised(metric + "seq_reward"), penalised(metric + "seq_final_reward")})
    EXPECT_TRUE(load(same).config.rollout.dynamic_sampling) << same[0];
  const std::string functions = R"(reward.functions=["math", "stopped"])";
  for (const std::vector<std::string>& other :
       {with({metric + "seq_final_reward", kl}), with({metric + "seq_final_reward", "reference.kl_in_reward=0.1"}),
        penalised(metric + "score"), with({metric + "score", "reward.overlong_buffer=4", "rollout.max_new_tokens=16"}),
        with({metric + "score", functions})})
    EXPECT_THAT(refusal_of(other), testing::AllOf(HasSubstr("with the overlong penalty, before the KL"),
                                                  HasSubstr("set it to seq_reward")))
        << other[0];
}

// verl, recipe/dapo: gen_batch_size is train_batch_size by default, and may be larger.
TEST(ConfigAliases, TheBatchesThatVerlSamplesAreThoseOfAStep) {
  const std::string batch = "data.train_batch_size=4",
                    sampled = "data.gen_batch_size=", grpo = "algorithm.adv_estimator=grpo";
  EXPECT_EQ(load({batch, sampled + "4", grpo}).config.train.prompts_per_step, 4);
  EXPECT_EQ(load({batch, sampled + "null", grpo}).config.train.prompts_per_step, 4);
  const std::string refused = refusal_of({batch, sampled + "12", grpo});
  EXPECT_THAT(refused, testing::AllOf(HasSubstr("train.prompts_per_step prompts, 4"), HasSubstr("remove it"),
                                      testing::Not(HasSubstr("set train.prompts_per_step"))));
  // dapo_ray_trainer.py: of a larger batch the first groups that are left make a step.
  const std::string filter = "algorithm.filter_groups.";
  const Config filtered =
      load({batch, sampled + "12", grpo, filter + "enable=true", filter + "max_num_gen_batches=10"}).config;
  EXPECT_EQ(filtered.train.prompts_per_step, 4);
  EXPECT_EQ(filtered.rollout.max_batches, 30);
  EXPECT_THAT(refusal_of({batch, sampled + "10", grpo, filter + "enable=true"}), HasSubstr("data.gen_batch_size"));
}

}  // namespace
}  // namespace keel
