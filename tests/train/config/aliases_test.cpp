// Names from TRL and verl.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "keel/core/options/read_config.h"
#include "keel/train/config/config.h"
#include "keel/train/config/foreign_adapter.h"
#include "keel/train/config/foreign_objective.h"
#include "keel/train/config/foreign_reward.h"
#include "keel/train/config/foreign_schedule.h"
#include "keel/train/config/foreign_sizes.h"
#include "tests/train/config/loaded_settings.h"
#include "tests/train/config/refused_names.h"

namespace keel {
namespace {

using testing::HasSubstr;

/// The option at a dotted path, as the loaded configuration writes it down.
Json value_at(const Config& config, const std::string& path) {
  std::string pointer = "/" + path;
  for (char& c : pointer) c = c == '.' ? '/' : c;
  return to_json(config).at(Json::json_pointer(pointer));
}

struct AliasCase {
  std::string name, value, target;
  Json expected;
};

// Expected values by hand: counts of completions are divided by the 8 samples per prompt, counts of prompts are
// multiplied by them, and all others are the same number.
const std::vector<AliasCase> kAliases = {
    {"output_dir", "out/a", "run.dir", "out/a"},
    {"seed", "7", "run.seed", 7},
    {"bf16", "true", "run.precision", "bf16"},
    {"bf16", "false", "run.precision", "float32"},
    {"fp16", "true", "run.precision", "fp16"},
    {"torch_dtype", "bfloat16", "run.precision", "bf16"},
    {"dtype", "float16", "run.precision", "fp16"},
    {"actor_rollout_ref.rollout.dtype", "bfloat16", "run.precision", "bf16"},
    {"actor_rollout_ref.actor.fsdp_config.dtype", "float16", "run.precision", "fp16"},
    {"actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype", "fp32", "run.precision", "float32"},
    {"actor_rollout_ref.model.torch_dtype", "bfloat16", "run.precision", "bf16"},
    {"data.seed", "7", "run.seed", 7},
    {"dataset_prompt_column", "question", "data.prompt_key", "question"},
    {"dataset_name", "rows.jsonl", "data.files", Json::array({"rows.jsonl"})},
    {"system_prompt", "Think.", "data.system_prompt", "Think."},
    {"shuffle_dataset", "false", "data.shuffle", false},
    {"max_prompt_length", "512", "data.max_prompt_tokens", 512},
    {"chat_template_kwargs", R"({"enable_thinking": false})", "data.template_words",
     Json::array({"enable_thinking=false"})},
    {"actor_rollout_ref.actor.shuffle", "true", "train.shuffle", "rollouts"},
    {"model", "some/model", "model.path", "some/model"},
    {"model_name_or_path", "some/model", "model.path", "some/model"},
    {"learning_rate", "2e-6", "optimizer.lr", 2e-6},
    {"adam_beta1", "0.8", "optimizer.beta1", 0.8},
    {"adam_beta2", "0.98", "optimizer.beta2", 0.98},
    {"adam_epsilon", "1e-6", "optimizer.eps", 1e-6},
    {"weight_decay", "0.1", "optimizer.weight_decay", 0.1},
    {"max_grad_norm", "0.2", "optimizer.max_grad_norm", 0.2},
    {"num_generations", "4", "rollout.samples_per_prompt", 4},
    {"num_generations_eval", "4", "eval.samples", 4},
    {"max_completion_length", "40", "rollout.max_new_tokens", 40},
    {"temperature", "0.7", "rollout.temperature", 0.7},
    {"generation_batch_size", "64", "train.prompts_per_step", 8},
    {"num_iterations", "2", "train.epochs", 2},
    {"beta", "0.04", "reference.kl_coefficient", 0.04},
    {"entropy_coef", "0.01", "objective.entropy_coefficient", 0.01},
    {"save_total_limit", "3", "checkpoint.keep", 3},
    {"load_best_model_at_end", "true", "checkpoint.keep_best", true},
    {"metric_for_best_model", "eval_reward", "checkpoint.best_metric", "eval/reward"},
    {"num_ppo_epochs", "2", "train.epochs", 2},
    {"cliprange_value", "0.3", "critic.value_clip", 0.3},
    {"gamma", "0.99", "critic.gamma", 0.99},
    {"lam", "0.9", "critic.lambda", 0.9},
    {"vf_coef", "0.5", "critic.loss_weight", 0.5},
    {"kl_coef", "0.04", "reference.kl_in_reward", 0.04},
    {"mask_truncated_completions", "true", "train.mask_truncated", true},
    {"gradient_checkpointing", "true", "train.recompute_activations", true},
    {"activation_checkpointing", "true", "train.recompute_activations", true},
    {"actor_rollout_ref.model.enable_gradient_checkpointing", "true", "train.recompute_activations", true},
    {"optim", "adamw_8bit", "optimizer.moments", "8bit"},
    {"optim", "adamw_bnb_8bit", "optimizer.moments", "8bit"},
    {"optim", "adamw_torch_fused", "optimizer.moments", "float32"},
    {"actor_rollout_ref.actor.optim.optimizer", "AdamW8bit", "optimizer.moments", "8bit"},
    {"trainer.default_local_dir", "out/b", "run.dir", "out/b"},
    {"trainer.total_training_steps", "12", "train.steps", 12},
    {"trainer.max_actor_ckpt_to_keep", "3", "checkpoint.keep", 3},
    {"full_determinism", "true", "run.deterministic", true},
    {"actor_rollout_ref.actor.fsdp_config.full_determinism", "true", "run.deterministic", true},
    {"trainer.save_freq", "20", "checkpoint.every", 20},
    {"trainer.test_freq", "-1", "eval.every", 0},  // never
    {"actor_rollout_ref.model.path", "some/model", "model.path", "some/model"},
    {"actor_rollout_ref.model.lora_rank", "8", "lora.rank", 8},
    {"reward_weights", "[2, 0.5]", "reward.weights", {2.0, 0.5}},
    {"custom_reward_function.path", "a.py", "reward.functions", Json::array({"python:a.py"})},
    {"reward.custom_reward_function.path", "a.py", "reward.functions", Json::array({"python:a.py"})},
    {"data.train_files", "a.parquet", "data.files", Json::array({"a.parquet"})},
    {"data.val_files", R"(["a.jsonl", "b.jsonl"])", "data.eval_files", {"a.jsonl", "b.jsonl"}},
    {"data.max_prompt_length", "512", "data.max_prompt_tokens", 512},
    {"data.apply_chat_template_kwargs", R"({"style": "brief"})", "data.template_words", Json::array({R"(style="brief")"})},
    {"data.reward_fn_key", "kind", "data.source_key", "kind"},
    {"data.train_batch_size", "64", "train.prompts_per_step", 64},
    {"data.max_response_length", "48", "rollout.max_new_tokens", 48},
    {"actor_rollout_ref.rollout.n", "16", "rollout.samples_per_prompt", 16},
    {"actor_rollout_ref.rollout.temperature", "0.9", "rollout.temperature", 0.9},
    {"actor_rollout_ref.rollout.val_kwargs.n", "32", "eval.samples", 32},
    {"actor_rollout_ref.rollout.val_kwargs.temperature", "0.6", "eval.temperature", 0.6},
    {"actor_rollout_ref.rollout.val_kwargs.top_p", "0.95", "eval.top_p", 0.95},
    {"actor_rollout_ref.rollout.val_kwargs.do_sample", "false", "eval.temperature", 0},
    {"actor_rollout_ref.actor.optim.lr", "1e-5", "optimizer.lr", 1e-5},
    {"actor_rollout_ref.actor.optim.weight_decay", "0.01", "optimizer.weight_decay", 0.01},
    {"actor_rollout_ref.actor.grad_clip", "0.5", "optimizer.max_grad_norm", 0.5},
    {"actor_rollout_ref.actor.optim.clip_grad", "0.5", "optimizer.max_grad_norm", 0.5},
    {"actor_rollout_ref.actor.ppo_epochs", "3", "train.epochs", 3},
    {"actor_rollout_ref.actor.ppo_mini_batch_size", "4", "train.sequences_per_update", 32},
    {"actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "4096", "train.tokens_per_batch", 4096},
    {"actor_rollout_ref.actor.entropy_coeff", "0.02", "objective.entropy_coefficient", 0.02},
    {"actor_rollout_ref.actor.use_kl_loss", "true", "reference.kl_coefficient", 0.001},  // verl's default
    {"actor_rollout_ref.actor.kl_loss_type", "mse", "reference.estimator", "k2"},
    {"algorithm.gamma", "0.99", "critic.gamma", 0.99},
    {"algorithm.lam", "0.9", "critic.lambda", 0.9},
    {"critic.cliprange_value", "0.3", "critic.value_clip", 0.3},
    {"critic.optim.lr", "1e-4", "critic.lr", 1e-4},
    {"trainer.critic_warmup", "3", "critic.warmup_steps", 3},
    {"pretrain", "some/model", "model.path", "some/model"},
    {"save_path", "out/c", "run.dir", "out/c"},
    {"prompt_data", "a.jsonl", "data.files", Json::array({"a.jsonl"})},
    {"input_key", "problem", "data.prompt_key", "problem"},
    {"label_key", "truth", "data.answer_key", "truth"},
    {"remote_rm_url", "http://localhost:5000/score", "reward.functions", Json::array({"http://localhost:5000/score"})},
    {"remote_rm_url", "judge.py", "reward.functions", Json::array({"python:judge.py"})},
    {"n_samples_per_prompt", "16", "rollout.samples_per_prompt", 16},
    {"generate_max_len", "48", "rollout.max_new_tokens", 48},
    {"rollout_batch_size", "64", "train.prompts_per_step", 64},
    {"train_batch_size", "32", "train.sequences_per_update", 32},
    {"lora_rank", "8", "lora.rank", 8},
    {"actor_learning_rate", "2e-6", "optimizer.lr", 2e-6},
    {"critic_learning_rate", "1e-4", "critic.lr", 1e-4},
    {"l2", "0.1", "optimizer.weight_decay", 0.1},
    {"max_norm", "0.5", "optimizer.max_grad_norm", 0.5},
    {"kl_estimator", "k2", "reference.estimator", "k2"},
    {"eval_temperature", "0.6", "eval.temperature", 0.6},
    {"eval_n_samples_per_prompt", "4", "eval.samples", 4},
    {"algorithm.filter_groups.enable", "true", "rollout.dynamic_sampling", true},
    {"dynamic_filtering", "true", "rollout.dynamic_sampling", true},
    {"lambd", "0.9", "critic.lambda", 0.9},
    {"value_clip", "0.3", "critic.value_clip", 0.3},
};

TEST(ConfigAliases, SetWhatTheyMeanAndSaySoOnce) {
  for (const AliasCase& c : kAliases) {
    SCOPED_TRACE(c.name);
    // Without a method of ours some of these would mean another program's; a critic's settings need one that has it.
    const bool critic = c.target.starts_with("critic.");
    Config plain;
    plain.objective.method = critic ? "ppo_gae" : "dppo_tv";
    std::vector<std::string> settings{c.name + "=" + c.value, "objective.method=" + plain.objective.method};
    if (c.target.starts_with("data.")) {  // whose prompts say nothing of a completion's length
      if (!c.target.ends_with("files")) {
        plain.data.files = {"a.jsonl"};
        settings.push_back("data.files=[\"a.jsonl\"]");
      }
      plain.rollout.max_new_tokens = 64;
      settings.push_back("rollout.max_new_tokens=64");
    }
    if (critic) {
      plain.critic.body = "shared";
      settings.push_back("critic.body=shared");
    }
    const Loaded loaded = load(settings);
    EXPECT_EQ(value_at(loaded.config, c.target), c.expected);
    Json others = to_json(loaded.config), defaults = to_json(plain);
    const size_t dot = c.target.find('.');
    others[c.target.substr(0, dot)].erase(c.target.substr(dot + 1));
    defaults[c.target.substr(0, dot)].erase(c.target.substr(dot + 1));
    EXPECT_EQ(others, defaults) << "an alias changed more than its target";
    if (c.name == "model") {  // a shorthand of ours too
      EXPECT_THAT(loaded.notes, testing::IsEmpty());
      continue;
    }
    EXPECT_THAT(loaded.notes, testing::Contains(testing::StartsWith(c.name + " (")).Times(1));
    EXPECT_THAT(loaded.notes, testing::Contains(HasSubstr(") is " + c.target)).Times(1));
  }
}

TEST(ConfigAliases, OfTypesSayNothingWhereTheOtherProgramWouldComputeInBf16AllTheSame) {
  const auto precision = [](const std::vector<std::string>& settings) { return load(settings).config.run.precision; };
  EXPECT_EQ(precision({"fp16=false"}), "auto");
  EXPECT_EQ(precision({"torch_dtype=float32"}), "auto");  // of the weights
  EXPECT_EQ(precision({"torch_dtype=auto"}), "auto");
  EXPECT_EQ(precision({"torch_dtype=float32", "bf16=true"}), "bf16");
  EXPECT_EQ(precision({"bf16=false", "fp16=true"}), "fp16");
  EXPECT_EQ(precision({"objective.method=dppo_tv", "actor_rollout_ref.actor.fsdp_config.model_dtype=fp32"}), "auto");
  EXPECT_THAT(error_of(2, [] { load({"bf16=true", "fp16=true"}); }), HasSubstr("keep one of them"));
  EXPECT_THAT(error_of(2, [] { load({"torch_dtype=int8"}); }), HasSubstr("wanted bfloat16, float16 or float32"));
  EXPECT_THAT(error_of(2, [] { load({"run.precision=fp8"}); }), HasSubstr("run.precision"));
}

// Values with which the programs' own scripts change nothing.
const std::vector<std::string> kHarmless = {"top_p=1.0",
                                            "top_k=-1",
                                            "use_vllm=false",
                                            "greater_is_better=true",
                                            "reward_model.reward_manager=dapo",
                                            "use_bias_correction_kl=false",
                                            "report_to=none",
                                            "lr_scheduler_type=constant",
                                            "lr_scheduler_kwargs={}",
                                            "lr_scheduler_kwargs.num_cycles=0.5",
                                            "actor_rollout_ref.actor.optim.num_cycles=0.5",
                                            "disable_dropout=true",
                                            "algorithm.filter_groups={\"enable\": false, \"metric\": \"acc\"}",
                                            "actor_rollout_ref.rollout.top_p=1",
                                            "actor_rollout_ref.rollout.quantization=null",
                                            "actor_rollout_ref.rollout.top_k=-1",
                                            "reward_model.enable=false",
                                            "trainer.nnodes=1",
                                            "actor_rollout_ref.rollout.mode=async",
                                            "data.val_max_samples=-1",
                                            "kl_target=null",
                                            "init_kl_coef=0"};

TEST(ConfigAliases, AValueThatChangesNothingIsAcceptedUnderANameThatIsRefused) {
  const Config plain = load({"objective.method=dppo_tv"}).config;
  for (const std::string& setting : kHarmless) {
    SCOPED_TRACE(setting);
    EXPECT_EQ(to_json(load({setting, "objective.method=dppo_tv"}).config), to_json(plain));
  }
}

TEST(ConfigAliases, OfTheToolsThatShowARunTensorBoardIsWrittenForAndOthersAreRefused) {
  const std::string method = "objective.method=dppo_tv";
  for (const std::string setting : {"report_to=tensorboard", "report_to=[none, tensorboard]",
                                    "trainer.logger=[console, tensorboard]", "trainer.logger=tensorboard"})
    EXPECT_TRUE(load({setting, method}).config.record.tensorboard) << setting;
  for (const std::string setting : {"report_to=[]", "report_to=null", "trainer.logger=[console]"})
    EXPECT_FALSE(load({setting, method}).config.record.tensorboard) << setting;
  EXPECT_THAT(refusal_of({"report_to=[tensorboard, wandb]", method}),
              testing::AllOf(HasSubstr("remove wandb"), HasSubstr("keel export RUN --wandb DIR")));
  EXPECT_THAT(refusal_of({"trainer.logger=[console, mlflow]", method}), HasSubstr("keel export RUN --mlflow DIR"));
  EXPECT_THAT(refusal_of({"trainer.logger=[swanlab]", method}), HasSubstr("keel export RUN --csv FILE"));
  EXPECT_THAT(refusal_of({"report_to=tensorboard", "record.tensorboard=false", method}), HasSubstr("keep one of them"));
}

TEST(ConfigAliases, AreRefusedWithTheWayOutWhereTheMeaningDiffers) {
  for (const auto& [name, way_out] : kRefusals) {
    const std::string message = refusal_of({name + "=3", "objective.method=dppo_tv"});
    EXPECT_THAT(message, HasSubstr("command line: " + name + "=3"));
    EXPECT_THAT(message, HasSubstr(way_out));
  }
}

// TRL, grpo_trainer.py: min(clamp(r, max=delta) A, clip(r) A). With delta 1.1 and a bound of 1.2 a token of r = 1.15
// has no gradient for A > 0 and one for A < 0, and a dual clip the other way round.
TEST(ConfigAliases, TrlsDeltaIsTheDualClipAboveItsUpperBoundAlone) {
  const std::string grpo = "loss_type=grpo", wanted = "wanted above 1 + epsilon_high, 1.";
  EXPECT_THAT(refusal_of({grpo, "delta=1.1"}), HasSubstr(wanted + "2"));
  EXPECT_THAT(refusal_of({grpo, "delta=1.25", "epsilon_high=0.28"}), HasSubstr(wanted + "28"));
  EXPECT_NO_THROW(load({grpo, "delta=1.25"}));
  EXPECT_NO_THROW(load({grpo, "delta=null"}));
}

TEST(ConfigAliases, ValuesThatChangeNothingAreAccepted) {
  for (const std::string setting :
       {"sync_ref_model=false", "ref_model_mixup_alpha=0.6", "ref_model_sync_steps=512", "use_liger_kernel=false",
        "repetition_penalty=1.0", "generation_kwargs={}", "generation_kwargs=null", "max_tool_calling_iterations=null",
        "use_adaptive_entropy=false", "log_completions=true", "actor_rollout_ref.actor.shuffle=false",
        "actor_rollout_ref.rollout.multi_turn.enable=false", "critic.enable=null", "lora.enable=false"})
    EXPECT_NO_THROW(load({setting, "objective.method=dppo_tv"})) << setting;
}

TEST(ConfigAliases, AnEmptySectionThatChangesNothingIsAcceptedAndNoOther) {
  for (const std::string name :
       {"custom_reward_function.reward_kwargs", "reward.custom_reward_function.reward_kwargs"}) {
    EXPECT_NO_THROW(load({name + "={}", "objective.method=dppo_tv"})) << name;
    EXPECT_THAT(refusal_of({name + ".x=1", "objective.method=dppo_tv"}), HasSubstr("remove it")) << name;
  }
}

TEST(ConfigAliases, WordsOfAChatTemplateAreTakenByName) {
  const auto words = [](const std::string& setting) {
    return load({setting, "objective.method=dppo_tv", "data.files=[a.jsonl]", "rollout.max_new_tokens=64"})
        .config.data.template_words;
  };
  for (const std::string name : {"chat_template_kwargs", "data.apply_chat_template_kwargs"}) {
    EXPECT_EQ(words(name + "={}"), std::vector<std::string>{});
    EXPECT_EQ(words(name + "=null"), std::vector<std::string>{});
    EXPECT_EQ(words(name + ".enable_thinking=false"), std::vector<std::string>{"enable_thinking=false"});
    EXPECT_EQ(words(name + R"(={"a": "3", "b": "off"})"), (std::vector<std::string>{"a=\"3\"", R"(b="off")"}));
    EXPECT_THAT(refusal_of({name + "=false", "objective.method=dppo_tv"}), HasSubstr("enable_thinking"));
  }
}

TEST(ConfigAliases, NullInPlaceOfNamesSetsNothing) {
  EXPECT_THAT(load({"data.val_files=null", "objective.method=dppo_tv"}).config.data.eval_files, testing::IsEmpty());
  const std::vector<std::string> pefts = {"q_proj", "v_proj"};
  EXPECT_EQ(load({"use_peft=true", "lora_target_modules=null", "objective.method=dppo_tv"}).config.lora.target_modules,
            pefts);
}

TEST(ConfigAliases, AreAllInTheTwoTablesAbove) {
  Config config;
  OptionTable table;
  config.describe(table);
  std::set<std::string> known, tested;
  for (const Alias& alias : table.aliases()) known.insert(alias.name);
  for (const Refusal& refusal : table.refusals()) known.insert(refusal.name);
  for (const AliasCase& c : kAliases) tested.insert(c.name);
  for (const auto& [name, way_out] : kRefusals) tested.insert(name);
  for (const Refusal& refusal : table.refusals())
    if (refusal.fate != Fate::kRefused) tested.insert(refusal.name);  // those of import_test.cpp
  OptionTable others;
  add_left_out(others);
  for (const Refusal& refusal : others.refusals()) tested.insert(refusal.name);
  OptionTable sizes;  // those of foreign_sizes_test.cpp
  add_size_aliases(sizes);
  add_schedule_aliases(sizes);
  for (const Alias& alias : sizes.aliases()) tested.insert(alias.name);
  for (const char* name : {"custom_reward_function.name", "reward.custom_reward_function.name"}) tested.insert(name);
  OptionTable adapters;  // those of adapter_aliases_test.cpp
  add_trl_adapter(adapters);
  add_adapter_aliases(adapters);
  for (const Alias& alias : adapters.aliases()) tested.insert(alias.name);
  for (const char* name : {"actor_rollout_ref.actor.optim.betas", "adam_betas"}) tested.insert(name);  // TheBetas
  tested.insert("actor_rollout_ref.actor.kl_loss_coef");                                               // TheKlOfVerl
  OptionTable reward;  // those of verl_aliases_test.cpp
  add_reward_aliases(reward);
  for (const Alias& alias : reward.aliases()) tested.insert(alias.name);
  for (const char* name : {"algorithm.filter_groups.metric", "algorithm.filter_groups.max_num_gen_batches"})
    tested.insert(name);  // those of TheFilterOfVerl
  OptionTable objective;  // those of foreign_objective_test.cpp
  add_objective_aliases(objective);
  for (const Alias& alias : objective.aliases()) tested.insert(alias.name);
  OptionTable schedule;  // those of schedule_aliases_test.cpp
  add_schedule_aliases(schedule);
  for (const Alias& alias : schedule.aliases()) tested.insert(alias.name);
  EXPECT_EQ(tested, known);
}

TEST(ConfigAliases, PutVerlsRewardFileAndFunctionTogether) {
  const Config config =
      load({"custom_reward_function.path=a.py", "custom_reward_function.name=f", "objective.method=dppo_tv"}).config;
  EXPECT_THAT(config.reward.functions, testing::ElementsAre("python:a.py:f"));
  const Config since = load({"reward.custom_reward_function.path=a.py", "reward.custom_reward_function.name=f",
                             "objective.method=dppo_tv"})
                           .config;
  EXPECT_THAT(since.reward.functions, testing::ElementsAre("python:a.py:f"));
  EXPECT_THAT(load({"custom_reward_function.name=f", "objective.method=dppo_tv"}).config.reward.functions,
              testing::IsEmpty());
}

TEST(ConfigAliases, TheKlInTheRewardIsThereInTrlsPpoUnlessItSaysOtherwise) {
  // PPOConfig: kl_coef 0.05.
  EXPECT_EQ(load({"cliprange=0.2", "critic.body=shared"}).config.reference.kl_in_reward, 0.05);
  EXPECT_EQ(load({"cliprange=0.2", "critic.body=shared", "kl_coef=0"}).config.reference.kl_in_reward, 0);
  EXPECT_EQ(load({"cliprange=0.2", "critic.body=shared", "reference.kl_in_reward=0.1"}).config.reference.kl_in_reward,
            0.1);
}

// TRL 0.17, ppo_trainer.py: the KL of kl_estimator is taken off the rewards; OpenRLHF 0.8 too, without use_kl_loss.
TEST(ConfigAliases, TheEstimatorOfAKlIsThatOfTheKlThatThereIs) {
  const auto estimators = [](const std::vector<std::string>& settings) {
    const ReferenceOptions reference = load(settings).config.reference;
    return std::pair{reference.kl_in_reward_estimator, reference.estimator};
  };
  const std::string k2 = "kl_estimator=k2";
  const std::pair<std::string, std::string> in_reward = {"k2", "k3"}, in_loss = {"k1", "k2"};
  const std::vector<std::string> ppo = {k2, "kl_coef=0.05", "critic.body=shared"};
  EXPECT_EQ(estimators(ppo), in_reward);
  EXPECT_EQ(estimators({k2, "cliprange=0.2", "critic.body=shared"}), in_reward);  // by TRL's default, 0.05
  EXPECT_THAT(load(ppo).notes,
              testing::Contains("kl_estimator (TRL, OpenRLHF) is reference.kl_in_reward_estimator = \"k2\""));
  const std::vector<std::string> theirs = {k2, "n_samples_per_prompt=4", "advantage_estimator=group_norm"};
  const auto with = [&](std::vector<std::string> settings) {
    settings.insert(settings.end(), theirs.begin(), theirs.end());
    return settings;
  };
  EXPECT_EQ(estimators(with({"reference.kl_in_reward=0.01"})), in_reward);
  EXPECT_EQ(estimators(with({"reference.kl_coefficient=0.01"})), in_loss);
  EXPECT_EQ(estimators(with({"reference.kl_coefficient=0.01", "reference.kl_in_reward=0.01"})),
            (std::pair<std::string, std::string>{"k2", "k2"}));
  EXPECT_THAT(load(with({"reference.kl_coefficient=0.01"})).notes,
              testing::Contains(HasSubstr("kl_estimator (TRL, OpenRLHF) is reference.estimator")));
}

TEST(ConfigAliases, TheBetasOfOthersAreTwoInAList) {
  for (const std::string name : {"actor_rollout_ref.actor.optim.betas", "adam_betas"}) {
    const OptimizerOptions optimizer = load({name + "=[0.8, 0.95]", "objective.method=dppo_tv"}).config.optimizer;
    EXPECT_EQ(optimizer.beta1, 0.8);
    EXPECT_EQ(optimizer.beta2, 0.95);
    EXPECT_THAT(refusal_of({name + "=0.8", "objective.method=dppo_tv"}), HasSubstr("two numbers"));
  }
}

// Hints that were followed trained something else.
TEST(ConfigAliases, AMistakeIsToldOnceAndWhereItStands) {
  const std::string twice = refusal_of({"loss_type=sapo", "epsilon=0.3"});
  EXPECT_EQ(std::count(twice.begin(), twice.end(), '\n'), 0) << twice;
  const ConfigTree ours = parse_config(R"({"train": {"steps": 5}})", "own.json");
  EXPECT_THAT(error_of(2, [&] { load(ours, {"gamma=0.9"}); }), testing::StartsWith("command line: critic.gamma"));
}

TEST(ConfigAliases, ConvertWithTheSamplesPerPromptOfTheSameFileWhateverItIsCalled) {
  // 48 completions of 6 per prompt are 8 prompts; 2 prompts are 12 completions.
  const Config trl = load({"generation_batch_size=48", "num_generations=6"}).config;
  EXPECT_EQ(trl.train.prompts_per_step, 8);
  const Config verl = load({"actor_rollout_ref.actor.ppo_mini_batch_size=2", "actor_rollout_ref.rollout.n=6",
                            "algorithm.adv_estimator=grpo"})
                          .config;
  EXPECT_EQ(verl.train.sequences_per_update, 12);
  const Config ours = load({"actor_rollout_ref.actor.ppo_mini_batch_size=4", "rollout.samples_per_prompt=3",
                            "objective.method=dppo_tv"})
                          .config;
  EXPECT_EQ(ours.train.sequences_per_update, 12);
}

TEST(ConfigAliases, RefuseCountsThatHaveNoAnswer) {
  EXPECT_THAT(refusal_of({"generation_batch_size=60"}),
              HasSubstr("wanted a multiple of rollout.samples_per_prompt, 8"));
  for (const char* count : {"0", "-8", "many", "2.5", "4611686018427387904", "18446744073709551615"}) {
    EXPECT_THAT(refusal_of({std::string("generation_batch_size=") + count}), HasSubstr("generation_batch_size"));
    const std::string name = "actor_rollout_ref.actor.ppo_mini_batch_size";
    EXPECT_THAT(refusal_of({name + "=" + count, "algorithm.adv_estimator=grpo"}), HasSubstr(name));
  }
  EXPECT_THAT(refusal_of({"generation_batch_size=64", "rollout.samples_per_prompt=0"}), HasSubstr("at least 1"));
}

TEST(ConfigAliases, AndOurNameForTheSameThingAreAContradiction) {
  const std::string message = refusal_of({"learning_rate=1e-6", "optimizer.lr=1e-6"});
  EXPECT_THAT(message, HasSubstr("learning_rate"));
  EXPECT_THAT(message, HasSubstr("optimizer.lr"));
  EXPECT_THAT(message, HasSubstr("keep one of them"));
}

TEST(ConfigAliases, KeepTheLimitsOfTheirTarget) {
  EXPECT_THAT(refusal_of({"learning_rate=-1"}), HasSubstr("at least 0"));
  EXPECT_THAT(refusal_of({"actor_rollout_ref.actor.policy_loss.loss_mode=drpo", "algorithm.adv_estimator=grpo"}),
              HasSubstr("keel methods"));
}

TEST(ConfigAliases, OnTheCommandLineWinOverTheFile) {
  ConfigTree tree =
      parse_config(R"({"rollout": {"samples_per_prompt": 6}, "objective": {"method": "grpo"}})", "run.json");
  apply_override(tree, "num_generations=4");
  std::vector<std::string> notes;
  EXPECT_EQ(load_config(tree, notes).rollout.samples_per_prompt, 4);
  EXPECT_THAT(notes, testing::Contains(HasSubstr("num_generations (TRL) is rollout.samples_per_prompt")));
  tree = parse_config("{\"num_generations\": 6, \"objective\": {\"method\": \"grpo\"}}", "run.json");
  apply_override(tree, "rollout.samples_per_prompt=4");
  notes.clear();
  EXPECT_EQ(load_config(tree, notes).rollout.samples_per_prompt, 4);
  EXPECT_THAT(notes, testing::Not(testing::Contains(HasSubstr("(TRL) is"))));  // what is not taken is not noted
}

// TRL 1.16.0, trainer/grpo_trainer.py: advantages / (std_rewards + 1e-4) where scale_rewards is not none; verl 0.9.1,
// trainer/ppo/core_algos.py: epsilon 1e-6, as here.
TEST(ConfigAliases, WhatIsAddedToADeviationIsTheProgramsOwn) {
  const auto eps_of = [](const std::vector<std::string>& settings) {
    return load(settings).config.objective.advantage_eps;
  };
  EXPECT_EQ(eps_of({"num_generations=4"}), 1e-4);
  EXPECT_EQ(eps_of({"num_generations=4", "scale_rewards=true"}), 1e-4);
  EXPECT_EQ(eps_of({"num_generations=4", "scale_rewards=none"}), std::nullopt);
  EXPECT_EQ(eps_of({"num_generations=4", "objective.advantage=rloo"}), std::nullopt);
  EXPECT_EQ(eps_of({"scale_rewards=group", "objective.advantage_eps=0.5"}), 0.5);
  EXPECT_EQ(eps_of({"algorithm.adv_estimator=grpo"}), std::nullopt);
  EXPECT_THAT(load({"objective.advantage_eps=0.5", "objective.advantage=rloo"}).notes,
              testing::Contains(HasSubstr("objective.advantage_eps does nothing: the advantage rloo")));
}

}  // namespace
}  // namespace keel
