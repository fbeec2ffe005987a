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
  EXPECT_THAT(refusal("algorithm.use_kl_in_reward=true"), HasSubstr("reference.kl_coefficient"));
  const std::string coefficient = "algorithm.kl_ctrl.kl_coef=0.5",
                    used = "algorithm.use_kl_in_reward=", grpo = "algorithm.adv_estimator=grpo";
  EXPECT_EQ(load({used + "false", coefficient, grpo}).config.reference.kl_coefficient, 0);
  EXPECT_EQ(load({coefficient, grpo}).config.reference.kl_coefficient, 0);
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

}  // namespace
}  // namespace keel
