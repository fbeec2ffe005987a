// The conversion of verl 0.9.1 recipes. Expected values are computed by hand from verl's trainer/config, core_algos.py,
// trainer_base.py and the FSDP engine's schedule.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/compat/import.h"
#include "keel/compat/recipe.h"
#include "keel/core/options/read_config.h"
#include "tests/support/errors.h"
#include "tests/support/test_folder.h"

namespace keel::compat {
namespace {

using testing::Contains;
using testing::IsEmpty;
using Words = std::vector<std::string>;

const std::string kActor = "actor_rollout_ref.actor.", kGrpo = "algorithm.adv_estimator=grpo",
                  kLoss = kActor + "policy_loss.loss_mode=", kFilter = "algorithm.filter_groups.",
                  kFilterOn = kFilter + "enable=true", kKl = "algorithm.use_kl_in_reward=true",
                  kPenalty = "reward.reward_kwargs.overlong_buffer_cfg.", kDapo = "reward.reward_manager.name=dapo";

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

/// The setting that a recipe sets; null if it sets none.
Json setting(const Imported& recipe, const std::string& key) {
  const ConfigTree tree = parse_config(recipe.yaml, "keel.yaml");
  const Json* value = find_value(tree, key);
  return value == nullptr ? Json() : *value;
}

struct Meaning {
  Words words;
  std::map<std::string, Json> settings;  // null: not set
};

void expect_meanings(const std::vector<Meaning>& meanings) {
  for (const Meaning& meaning : meanings) {
    SCOPED_TRACE(testing::PrintToString(meaning.words));
    const Imported recipe = imported(meaning.words);
    for (const auto& [key, value] : meaning.settings) EXPECT_EQ(setting(recipe, key), value) << key;
  }
}

struct Refused {
  Words words;
  std::string key, problem;
};

void expect_refused(const std::vector<Refused>& cases) {
  for (const auto& [words, key, problem] : cases)
    EXPECT_THAT(error_of(2, [&, &words = words] { imported(words); }), AllOf(HasSubstr(key), HasSubstr(problem)))
        << testing::PrintToString(words);
}

TEST(Verl, MissingKeysHaveVerlDefaults) {
  expect_meanings({{with_groups({"data.train_files=a.jsonl"}),
                    {{"train.prompts_per_step", 1024},
                     {"train.sequences_per_update", 1024},
                     {"train.data_epochs", 30},
                     {"train.steps", nullptr},
                     {"data.max_prompt_tokens", 512},
                     {"rollout.max_new_tokens", 512},
                     {"optimizer.weight_decay", 0.01},
                     {"eval.temperature", 0},
                     {"objective.method", "ppo"},
                     {"objective.delta_low", 0.2},
                     {"objective.delta_high", 0.2},
                     {"objective.parameters", {"dual=3.0"}},
                     {"objective.aggregation", "token_mean"},
                     {"reference.kl_coefficient", nullptr},
                     {"critic.body", nullptr}}},
                   {{"data.train_files=a.jsonl"},
                    {{"objective.method", "ppo_gae"},
                     {"objective.advantage", "gae"},
                     {"critic.body", "separate"},
                     {"critic.lr", 1e-5},
                     {"critic.value_clip", 0.5},
                     {"critic.gamma", 1.0},
                     {"critic.lambda", 1.0}}}});
  const Words absent = {"data.train_files=a.jsonl", "actor_rollout_ref.model.path=m"};
  EXPECT_EQ(setting(import_recipe(read_recipe("", absent)), "rollout.samples_per_prompt"), 1);
}

TEST(Verl, LossesSetBoundsAndParameters) {
  const std::string low = kActor + "clip_ratio_low", high = kActor + "clip_ratio_high";
  const auto loss = [](const std::string& mode, Words more = {}) {
    more.insert(more.begin(), {kGrpo, kLoss + mode});
    return more;
  };
  const Json none = nullptr;
  expect_meanings(
      {{loss("vanilla", {high + "=0.28", kActor + "clip_ratio_c=10"}),
        {{"objective.method", "ppo"}, {"objective.delta_high", 0.28}, {"objective.parameters", {"dual=10"}}}},
       {loss("dppo_tv", {low + "=0.15", kActor + "clip_ratio_c=20.0"}),
        {{"objective.method", "dppo_tv"}, {"objective.delta_low", 0.15}, {"objective.ratio_cap", 20.0}}},
       {loss("dppo_kl"),
        {{"objective.method", "dppo_kl"}, {"objective.ratio_cap", 3.0}, {"objective.parameters", none}}},
       {loss("gspo", {low + "=3e-4"}), {{"objective.method", "gspo"}, {"objective.delta_low", 3e-4}}},
       {loss("cispo", {low + "=10"}), {{"objective.method", "cispo"}, {"objective.delta_low", 10}}},
       {loss("geo_mean"), {{"objective.method", "gmpo"}, {"objective.aggregation", none}}},
       {loss("sapo"),
        {{"objective.method", "sapo"},
         {"objective.parameters", {"tau_positive=1.0", "tau_negative=1.05"}},
         {"objective.delta_low", none}}},
       {loss("dro", {kActor + "policy_loss.dro_beta=0.5"}),
        {{"objective.method", "dro"}, {"objective.parameters", {"beta=0.5"}}}},
       {loss("gpg"), {{"objective.method", "pg"}, {"objective.delta_low", none}}},
       {loss("vanilla", {kActor + "clip_ratio=0.1", low + "=null", high + "=null"}),
        {{"objective.delta_low", 0.1}, {"objective.delta_high", 0.1}}},
       {loss("vanilla", {kActor + "loss_agg_mode=seq-mean-token-sum-norm", kActor + "loss_scale_factor=512"}),
        {{"objective.aggregation", "seq_mean_token_sum_norm"}, {"objective.horizon", 512}}},
       {loss("vanilla", {"objective.method=dppo_tv"}),
        {{"objective.method", "dppo_tv"}, {"objective.delta_low", none}, {"objective.parameters", none}}}});
  expect_refused({{loss("clip_cov"), "loss_mode", "expected one of"},
                  {loss("dro"), "dro_beta", "no default"},
                  {loss("vanilla", {kActor + "clip_ratio=0.1"}), kActor + "clip_ratio", "set " + low},
                  {loss("vanilla", {kActor + "loss_agg_mode=token-sum"}), "loss_agg_mode", "expected one of"},
                  {loss("sapo", {kActor + "use_kl_loss=true"}), "loss_agg_mode", "set it to seq-mean-token-mean"}});
}

TEST(Verl, ConvertsAdvantagesAndKl) {
  const auto advantage = [](const std::string& word) { return Words{"algorithm.adv_estimator=" + word}; };
  expect_meanings(
      {{advantage("grpo"), {{"objective.advantage", "grpo"}}},
       {with_groups({"algorithm.norm_adv_by_std_in_grpo=false"}), {{"objective.advantage", "group_mean"}}},
       {advantage("rloo_vectorized"), {{"objective.advantage", "rloo"}}},
       {advantage("reinforce_plus_plus"), {{"objective.advantage", "reinforce_pp"}}},
       {advantage("reinforce_plus_plus_baseline"), {{"objective.advantage", "reinforce_pp_baseline"}}},
       {with_groups({kActor + "use_kl_loss=true"}),
        {{"reference.kl_coefficient", 0.001}, {"reference.kl_in_reward", nullptr}}},
       {with_groups({kActor + "use_kl_loss=true", kActor + "kl_loss_coef=0.5", kActor + "kl_loss_type=mse"}),
        {{"reference.kl_coefficient", 0.5}, {"reference.estimator", "k2"}}},
       {with_groups({kActor + "kl_loss_coef=0.5"}), {{"reference.kl_coefficient", nullptr}}},
       {with_groups({kKl}), {{"reference.kl_in_reward", 0.001}, {"reference.kl_in_reward_target", nullptr}}},
       {with_groups({kKl, "algorithm.kl_penalty=low_var_kl"}), {{"reference.kl_in_reward_estimator", "k3"}}},
       {with_groups({kKl, "algorithm.kl_ctrl={type: adaptive, horizon: 5000}"}),
        {{"reference.kl_in_reward_target", 0.1}, {"reference.kl_in_reward_horizon", 5000}}},
       {with_groups({kKl, "algorithm.kl_ctrl.kl_coef=0.0"}), {{"reference.kl_in_reward", nullptr}}}});
  expect_refused(
      {{advantage("remax"), "adv_estimator", "expected one of"},
       {{"algorithm.adv_estimator=reinforce_plus_plus", "algorithm.gamma=0.9"}, "gamma", "only with a critic"},
       {with_groups({kActor + "use_kl_loss=2"}), "use_kl_loss", "expected true or false"},
       {with_groups({kActor + "use_kl_loss=true", kActor + "kl_loss_type=k3+"}), "kl_loss_type", "expected one"},
       {with_groups({kKl, "algorithm.kl_ctrl.type=cosine"}), "kl_ctrl.type", "expected one of"}});
}

TEST(Verl, SizesAndSchedulesAreConverted) {
  const std::string optim = kActor + "optim.", batch = "data.train_batch_size=8",
                    mini = kActor + "ppo_mini_batch_size=2", epochs = kActor + "ppo_epochs=3";
  expect_meanings(
      {{{kGrpo, batch, mini, epochs, optim + "lr_warmup_steps=5", "trainer.total_training_steps=7"},
        {{"train.prompts_per_step", 8},
         {"train.sequences_per_update", 8},
         {"train.epochs", 3},
         {"train.steps", 7},
         {"optimizer.warmup_updates", 60},  // 5 steps of 4 x 3 updates
         {"optimizer.schedule", "constant"},
         {"optimizer.schedule_per", "step"}}},
       {with_groups(
            {optim + "lr_scheduler_type=cosine", optim + "min_lr_ratio=0.1", optim + "lr_warmup_steps_ratio=0.05"}),
        {{"optimizer.schedule", "cosine"},
         {"optimizer.min_lr_ratio", 0.1},
         {"optimizer.warmup_updates", 0.05},
         {"optimizer.schedule_per", "step"}}},
       {with_groups({optim + "lr_warmup_steps=0",
                     optim + "lr_warmup_steps_ratio=0.1"}),  // the ratio is used only if steps are below 0
        {{"optimizer.warmup_updates", nullptr}, {"optimizer.schedule_per", nullptr}}},
       {with_groups({optim + "warmup_style=cosine"}), {{"optimizer.schedule", "cosine"}}},
       {with_groups({optim + "betas=[0.8,0.9]", optim + "lr_warmup_steps=-1", optim + "min_lr_ratio=0.1"}),
        {{"optimizer.beta1", 0.8},
         {"optimizer.beta2", 0.9},
         {"optimizer.min_lr_ratio", nullptr},
         {"optimizer.schedule_per", nullptr}}},
       {with_groups({kActor + "grad_clip=0.5"}), {{"optimizer.max_grad_norm", 0.5}}},
       {with_groups({optim + "clip_grad=0.5", kActor + "grad_clip=0.5"}), {{"optimizer.max_grad_norm", 0.5}}},
       {with_groups({"actor_rollout_ref.model.lora_rank=8"}),
        {{"lora.rank", 8},
         {"lora.alpha", 16},
         {"lora.target_modules", {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}}}},
       {with_groups({"actor_rollout_ref.model.lora_rank=0", "actor_rollout_ref.model.lora_alpha=32"}),
        {{"lora.rank", nullptr}, {"lora.alpha", nullptr}}}});
  expect_refused({{{kGrpo, batch}, "default of " + kActor + "ppo_mini_batch_size", "do not divide"},
                  {with_groups({optim + "clip_grad=1.0", kActor + "grad_clip=0.5"}), "grad_clip", "set both"},
                  {with_groups({optim + "lr_scheduler_type=linear"}), "lr_scheduler_type", "constant, cosine"},
                  {with_groups({optim + "zero_indexed_step=false"}), "zero_indexed_step", "count from 0"},
                  {with_groups({optim + "lr_decay_style=cosine"}), "lr_decay_style", "FSDP engine"}});
}

TEST(Verl, ConvertsRewardsAndGroupFilters) {
  const Words dapo = {kGrpo, kDapo, "data.max_response_length=64", kPenalty + "enable=true", kPenalty + "len=16"};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::string path = "reward.custom_reward_function.path=r.py";
  expect_meanings(
      {{with_groups({path}), {{"reward.functions", {"python:r.py:compute_score"}}}},
       {with_groups({"custom_reward_function.path=r.py", "custom_reward_function.name=f"}),
        {{"reward.functions", {"python:r.py:f"}}}},
       {with(dapo, {kPenalty + "penalty_factor=0.5", "reward.reward_kwargs.max_resp_len=64"}),
        {{"reward.overlong_buffer", 16}, {"reward.overlong_penalty", 0.5}}},
       {{kGrpo, "reward_model.reward_manager=dapo", "reward_model.overlong_buffer={enable: true, len: 4}",
         "data.max_response_length=8"},
        {{"reward.overlong_buffer", 4}}},
       {{kGrpo, "reward_manager.name=dapo", "reward_model.overlong_buffer={enable: true, len: 4}",
         "data.max_response_length=8"},
        {{"reward.overlong_buffer", 4}}},
       {with_groups({kPenalty + "enable=false", kPenalty + "len=16", "reward_manager.name=naive"}),
        {{"reward.overlong_buffer", nullptr}}},
       {{kGrpo, kFilterOn, "data.train_batch_size=4", kActor + "ppo_mini_batch_size=4", "data.gen_batch_size=12",
         kFilter + "max_num_gen_batches=10"},
        {{"rollout.dynamic_sampling", true}, {"rollout.max_batches", 30}}},
       {with_groups({kFilterOn}), {{"rollout.dynamic_sampling", true}, {"rollout.max_batches", nullptr}}},
       {with_groups({kFilterOn, kFilter + "metric=acc"}), {{"rollout.dynamic_sampling", true}}},
       {with_groups({kFilter + "enable=false", kFilter + "metric=acc"}), {{"rollout.dynamic_sampling", nullptr}}}});
  expect_refused(
      {{with(dapo, {"reward.reward_manager.name=naive"}), kPenalty + "enable", "only with the reward manager dapo"},
       {with(dapo, {"reward.reward_kwargs.max_resp_len=32"}), "max_resp_len", "expected 64"},
       {with_groups({kPenalty + "enable=true", kDapo}), kPenalty + "len", "from 1 to"},
       {with_groups({path, "reward.custom_reward_function.reward_kwargs={a: 1}"}), "reward_kwargs", "in the function"},
       {with_groups({"reward.reward_manager.name=gdpo"}), "reward_manager.name", "naive or dapo"},
       {with_groups({"reward_manager.name=prime"}), "reward_manager.name", "naive or dapo"},
       {with_groups({"reward.reward_model.enable=true"}), "reward_model.enable", "are servers"},
       {with_groups({"data.gen_batch_size=3"}), "gen_batch_size", "expected 1024"},
       {{kGrpo, kFilterOn, "data.train_batch_size=4", kActor + "ppo_mini_batch_size=4", "data.gen_batch_size=6"},
        "gen_batch_size",
        "a multiple of 4"},
       {with_groups({kFilterOn, kKl, kFilter + "metric=seq_final_reward"}), "metric", "without KL"},
       {with_groups({kFilterOn, path, kFilter + "metric=acc"}), "metric", "set it to reward"},
       {with(dapo, {kFilterOn, kFilter + "metric=score"}), "metric", "set it to reward"}});
}

// verl 0.9.1, trainer/ppo/utils.py: need_critic.
TEST(Verl, CriticFollowsThePolicyOrIsRejected) {
  const std::string gae = "algorithm.adv_estimator=gae", decay = "critic.optim.weight_decay=0.1";
  expect_meanings(
      {{{gae, "critic.cliprange_value=0.2", "algorithm.lam=0.95", "trainer.critic_warmup=3",
         "actor_rollout_ref.model.path=m", "critic.model.path=m", "critic.ppo_epochs=1"},
        {{"critic.value_clip", 0.2}, {"critic.lambda", 0.95}, {"critic.warmup_steps", 2}}},  // steps count from 1
       {{gae, decay, kActor + "optim.weight_decay=0.1"}, {{"critic.body", "separate"}}},
       {with_groups({decay, "critic.ppo_epochs=5", "critic.model.path=x"}), {{"critic.body", nullptr}}}});
  EXPECT_THAT(imported({gae, kActor + "optim.lr_warmup_steps=5"}).remarks, Contains(HasSubstr("the critic follows")));
  expect_refused(
      {{{gae, decay}, "critic.optim.weight_decay", "expected 0.01"},
       {{gae, "critic.ppo_epochs=2"}, "critic.ppo_epochs", "updates of the policy"},
       {{gae, "critic.model.path=other"}, "critic.model.path", "initialised from the policy"},
       {{gae, "critic.enable=false"}, "critic.enable", "needs a critic"},
       {with_groups({"trainer.critic_warmup=2"}), "trainer.critic_warmup", "would wait without a critic"},
       {{gae, kActor + "loss_agg_mode=seq-mean-token-sum"}, "critic.loss_agg_mode=token-mean", "expected token-mean"}});
}

TEST(Verl, EveryRejectedKeyHasHarmlessValues) {
  const std::string rollout = "actor_rollout_ref.rollout.";
  expect_refused(
      {{with_groups({rollout + "top_k=1"}), rollout + "top_k", "truncated"},  // it is greedy
       {with_groups({rollout + "top_p=0"}), rollout + "top_p", "truncated"},
       {with_groups({rollout + "qat.enable=true"}), rollout + "qat.enable", "change the training"},
       {with_groups({"critic.grad_clip=0.5"}), "critic.grad_clip", "share a limit"}});
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

TEST(Verl, KeelLossesKeepTheirMethod) {
  expect_meanings(
      {{with_groups({kLoss + "keel_drpo", kActor + "policy_loss.parameters={delta: 0.2}"}),
        {{"objective.method", "drpo"}, {"objective.parameters", {"delta=0.2"}}, {"objective.delta_low", nullptr}}}});
  expect_refused({{with_groups({"+keel=dppo_tv"}), "keel", "--cfg job --resolve"}});
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
