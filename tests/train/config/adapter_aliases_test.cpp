// What TRL, verl and OpenRLHF say about adapters, and about a critic where there is none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/train/config/config.h"
#include "tests/train/config/loaded_settings.h"

namespace keel {
namespace {

using testing::HasSubstr;

// TRL 1.16.0, ModelConfig: use_peft False, lora_r 16, lora_alpha 32, lora_target_modules None, which PEFT takes for
// q_proj and v_proj in models of Llama's kind.
TEST(AdapterAliases, TheAdapterOfTrlHasItsDefaultsAndIsThereOnlyWhereItIsAskedFor) {
  const auto lora = [](std::vector<std::string> settings) {
    settings.push_back("objective.method=dppo_tv");
    return load(settings).config.lora;
  };
  const LoraOptions plain = lora({"use_peft=true"}), wide = lora({"use_peft=true", "lora_r=8"});
  EXPECT_EQ(plain.rank, 16);
  EXPECT_EQ(plain.alpha, 32);
  EXPECT_THAT(plain.target_modules, testing::ElementsAre("q_proj", "v_proj"));
  EXPECT_EQ(wide.rank, 8);
  EXPECT_EQ(wide.scale(), 4);
  const LoraOptions said = lora(
      {"use_peft=true", "lora_r=8", "lora_alpha=8", "use_rslora=true", "lora_target_modules=[\"q_proj\", \"o_proj\"]"});
  EXPECT_EQ(said.alpha, 8);
  EXPECT_TRUE(said.rank_stabilized);
  EXPECT_THAT(said.target_modules, testing::ElementsAre("q_proj", "o_proj"));
  EXPECT_EQ(lora({"use_peft=true", "lora_target_modules=all-linear"}).target_modules, LoraOptions().target_modules);
  EXPECT_EQ(lora({"use_peft=true", "lora.adapter=some/adapter"}).rank, 0);
  EXPECT_EQ(lora({"use_peft=false", "lora_r=8"}).rank, 0);
  for (const char* name :
       {"lora_r=8", "lora_alpha=8", "lora_dropout=0.1", "use_rslora=true", "lora_target_modules=[\"q_proj\"]"})
    EXPECT_THAT(refusal_of({name, "objective.method=dppo_tv"}),
                testing::AllOf(HasSubstr("use_peft"), HasSubstr("lora.rank")));
  EXPECT_EQ(plain.dropout, 0.05);
  for (const char* other : {"num_generations=4", "objective.method=dppo_tv"})
    EXPECT_THAT(load({other, "use_peft=true"}).notes, testing::Contains("use_peft (TRL) is lora.dropout = 0.05"));
  EXPECT_EQ(lora({"use_peft=true", "disable_dropout=true"}).dropout, 0);
  EXPECT_EQ(lora({"use_peft=true", "lora.dropout=0.2"}).dropout, 0.2);
  EXPECT_EQ(lora({"use_peft=false"}).dropout, 0);
  EXPECT_EQ(lora({"use_peft=true", "lora_dropout=0.1"}).dropout, 0.1);
  EXPECT_EQ(lora({"use_peft=true", "lora_dropout=0.1", "disable_dropout=true"}).dropout, 0);
  EXPECT_EQ(lora({"lora_rank=4", "lora_dropout=0.1"}).dropout, 0.1) << "OpenRLHF's";
}

// PEFT 0.21.2, LoraConfig: r 8, lora_alpha 8, lora_dropout 0.0, target_modules None, as above.
TEST(AdapterAliases, ARankOfPeftsAsksForAnAdapterWithItsDefaults) {
  const auto lora = [](std::vector<std::string> settings) {
    settings.push_back("objective.method=dppo_tv");
    return load(settings).config.lora;
  };
  const LoraOptions plain = lora({"r=4"});
  EXPECT_EQ(plain.rank, 4);
  EXPECT_EQ(plain.alpha, 8);
  EXPECT_EQ(plain.dropout, 0);
  EXPECT_THAT(plain.target_modules, testing::ElementsAre("q_proj", "v_proj"));
  const LoraOptions said = lora({"r=4", "lora_alpha=32", "lora_dropout=0.1", "target_modules=[\"k_proj\"]", "use_rslora=true",
                                 "task_type=CAUSAL_LM", "bias=none", "modules_to_save=null", "init_lora_weights=true"});
  EXPECT_EQ(said.alpha, 32);
  EXPECT_EQ(said.dropout, 0.1);
  EXPECT_TRUE(said.rank_stabilized);
  EXPECT_THAT(said.target_modules, testing::ElementsAre("k_proj"));
  EXPECT_EQ(lora({"use_peft=true", "r=4"}).alpha, 32) << "the defaults of ModelConfig's adapter";
  EXPECT_EQ(lora({"use_peft=true", "r=4"}).rank, 4);
  EXPECT_EQ(lora({"use_peft=true", "target_modules=all-linear"}).target_modules, LoraOptions().target_modules);
  EXPECT_EQ(lora({"use_peft=false", "r=4"}).rank, 0);
  EXPECT_EQ(lora({"lora_rank=4", "target_modules=[\"k_proj\"]"}).target_modules.size(), 1u) << "OpenRLHF's";
  EXPECT_THAT(refusal_of({"num_generations=4", "target_modules=[\"q_proj\"]"}), HasSubstr("use_peft"));
  EXPECT_THAT(refusal_of({"num_generations=4", "r=0"}), HasSubstr("at least 1"));
  for (const char* other : {"bias=all", "use_dora=true", "lora_bias=true", "init_lora_weights=pissa",
                            "modules_to_save=[\"lm_head\"]", "layers_to_transform=[1]"})
    EXPECT_THAT(refusal_of({"num_generations=4", "r=4", other}), HasSubstr("remove it")) << other;
}

TEST(AdapterAliases, WhatIsSaidOfTrlsAdapterAndContradictsItselfIsRefused) {
  EXPECT_THAT(refusal_of({"use_peft=false", "lora.rank=4", "objective.method=dppo_tv"}),
              testing::AllOf(HasSubstr("use_peft"), HasSubstr("lora.rank is 4")));
  EXPECT_THAT(refusal_of({"use_peft=true", "lora_r=0", "objective.method=dppo_tv"}), HasSubstr("at least 1"));
}

// verl 0.9.1, model/hf_model.yaml: lora_rank 0, lora_alpha 16, target_modules all-linear; OpenRLHF 0.8,
// train_ppo_ray.py: the same.
TEST(AdapterAliases, TheAdapterOfVerlAndOpenRlhfIsThereWhereItHasARank) {
  for (const std::string place : {"actor_rollout_ref.model.", ""}) {
    const auto lora = [&](std::vector<std::string> settings) {
      for (std::string& setting : settings) setting = place + setting;
      settings.push_back("objective.method=dppo_tv");
      return load(settings).config.lora;
    };
    const LoraOptions plain = lora({"lora_rank=8"});
    EXPECT_EQ(plain.scale(), 2);  // 16 / 8
    EXPECT_EQ(plain.target_modules, LoraOptions().target_modules);
    const LoraOptions said = lora({"lora_rank=8", "lora_alpha=32", "target_modules=[\"q_proj\"]"});
    EXPECT_EQ(said.alpha, 32);
    EXPECT_THAT(said.target_modules, testing::ElementsAre("q_proj"));
    EXPECT_EQ(lora({"lora_rank=8", "target_modules=all-linear"}).target_modules, LoraOptions().target_modules);
    EXPECT_FALSE(lora({"lora_rank=0", "lora_alpha=32", "target_modules=[\"q_proj\"]"}).used());
    EXPECT_THAT(refusal_of({place + "target_modules=[\"q_proj\"]", "objective.method=dppo_tv"}),
                HasSubstr(place.empty() ? "use_peft" : "set " + place + "lora_rank"));  // TRL has that name, too
  }
}

TEST(AdapterAliases, ASectionLoraWithoutARankIsRefused) {
  for (const char* setting : {"lora.alpha=32", "lora.alpha=16", "lora.target_modules=[\"q_proj\"]",
                              "lora.rank_stabilized=true"})  // whether it is the default or not
    EXPECT_THAT(refusal_of({setting}), testing::AllOf(HasSubstr("lora.rank is not"), HasSubstr("all weights")))
        << setting;
  EXPECT_FALSE(load({"lora.alpha=32", "lora.rank=0"}).config.lora.used());  // said, to switch an adapter off
}

TEST(AdapterAliases, AllLinearIsAWordOfOursToo) {
  for (const char* word : {"all-linear", "[all-linear]"})
    EXPECT_EQ(load({"lora.rank=2", "lora.target_modules=" + std::string(word)}).config.lora.target_modules,
              LoraOptions().target_modules);
  EXPECT_THAT(refusal_of({"lora.rank=2", "lora.target_modules=q_proj"}), HasSubstr("lora.target_modules"));
}

TEST(AdapterAliases, WhatIsSaidBesideAnAdaptersOwnFileIsRefused) {
  const auto refused = testing::AllOf(HasSubstr("lora.adapter is peft"), HasSubstr("adapter_config.json"));
  for (const char* setting : {"lora.alpha=64", "lora.alpha=16", "lora.target_modules=[\"q_proj\"]",
                              "lora.rank_stabilized=true", "lora.rank=4"})
    EXPECT_THAT(refusal_of({"lora.adapter=peft", setting}), refused) << setting;
  EXPECT_THAT(error_of(2, [] { load(parse_config(R"({"lora": {"adapter": "peft", "alpha": 64}})", "run.json"), {}); }),
              testing::AllOf(testing::StartsWith("run.json:1: lora.alpha"), refused));
  EXPECT_THAT(refusal_of({"lora.adapter=peft", "use_peft=true", "lora_alpha=64"}), HasSubstr("lora.alpha is set"));
  // The file of a run that was started so names every setting.
  Config config;
  config.lora.adapter = "peft";
  EXPECT_EQ(load(parse_config(to_yaml(config, "run"), "config.yaml"), {"lora.rank=0"}).config.lora.adapter, "peft");
}

// verl's and OpenRLHF's own defaults, which say nothing where there is no critic: ray_trainer.py and
// experience_maker.py read lam for gae alone, and gamma for it and one kind of REINFORCE++.
TEST(CriticAliases, ACriticsSettingsSayNothingBesideAdvantagesThatNeedNone) {
  const std::string grpo = "algorithm.adv_estimator=grpo";
  EXPECT_EQ(to_json(load({grpo, "algorithm.gamma=1.0", "algorithm.lam=1.0", "critic.optim.lr=1e-5"}).config),
            to_json(load({grpo}).config));
  EXPECT_EQ(load({"advantage_estimator=group_norm", "lambd=1.0", "gamma=0.9"}).config.critic.lambda, 0.95);
  EXPECT_THAT(refusal_of({"algorithm.adv_estimator=reinforce_plus_plus", "algorithm.gamma=0.9"}),
              testing::AllOf(HasSubstr("algorithm.gamma"), HasSubstr("set it to 1")));
  EXPECT_THAT(refusal_of({"advantage_estimator=reinforce", "gamma=0.9"}), HasSubstr("set it to 1"));
  // Ours, typed beside the file, asks for the critic that the other program would not have had.
  const ConfigTree file = parse_config(R"({"algorithm": {"adv_estimator": "grpo"}})", "run.json");
  EXPECT_EQ(load(file, {"objective.advantage=gae", "critic.body=separate", "algorithm.lam=0.9"}).config.critic.lambda,
            0.9);
}

}  // namespace
}  // namespace keel
