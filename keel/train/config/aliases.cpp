#include "keel/core/error.h"
#include "keel/train/config/config.h"
#include "keel/train/config/foreign_objective.h"

namespace keel {
namespace {

/// A count that a product of two cannot carry out of 63 bits; 0 for anything else.
int64_t count_of(const Json& value) {
  constexpr int64_t kMaxCount = int64_t{1} << 32;
  const int64_t count = value.is_number_integer() ? value.get<int64_t>() : 0;
  return count < 0 || count > kMaxCount ? 0 : count;
}

/// verl's files are a name or a list of names.
Json list_of_names(const Json& value, const ConfigTree&, const OptionTable&) {
  return value.is_array() ? value : Json::array({value});
}

/// From a number of completions to a number of prompts.
Json completions_to_prompts(const Json& value, const ConfigTree&, const OptionTable& table) {
  const int64_t samples = table.get("rollout.samples_per_prompt").get<int64_t>(), completions = count_of(value);
  if (completions == 0 || completions % samples != 0)
    fail(ExitCode::kBadConfiguration, "got ", value.dump(),
         " completions, wanted a multiple of rollout.samples_per_prompt, ", samples);
  return completions / samples;
}

/// From a number of prompts to a number of completions.
Json prompts_to_completions(const Json& value, const ConfigTree&, const OptionTable& table) {
  const int64_t prompts = count_of(value);
  if (prompts == 0) fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted a number of prompts, at least 1");
  return prompts * table.get("rollout.samples_per_prompt").get<int64_t>();
}

constexpr const char* kUseKlLoss = "actor_rollout_ref.actor.use_kl_loss";
constexpr const char* kKlLossCoefficient = "actor_rollout_ref.actor.kl_loss_coef";

/// verl's coefficient has a default, and does nothing where use_kl_loss is not true.
Json kl_loss_coefficient(const Json& value, const ConfigTree& tree, const OptionTable&) {
  const Json* used = find_value(tree, kUseKlLoss);
  if (used == nullptr)
    fail(ExitCode::kBadConfiguration, "verl reads it only where ", kUseKlLoss,
         " is true, and its default is false; set that too, or set reference.kl_coefficient");
  return *used == false ? kSetsNothing : value;
}

Json use_kl_loss(const Json& value, const ConfigTree& tree, const OptionTable&) {
  constexpr double kVerlsDefault = 0.001;
  if (!value.is_boolean()) fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted true or false");
  const bool said_elsewhere =
      find_value(tree, kKlLossCoefficient) != nullptr || find_value(tree, "reference.kl_coefficient") != nullptr;
  return !value.get<bool>() || said_elsewhere ? kSetsNothing : Json(kVerlsDefault);
}

constexpr const char* kUseKlInReward = "algorithm.use_kl_in_reward";

Json kl_in_reward(const Json& value, const ConfigTree&, const OptionTable&) {
  if (value == false) return kSetsNothing;
  fail(ExitCode::kBadConfiguration, "Keel adds the KL to the loss and takes nothing off the reward; set ",
       "reference.kl_coefficient");
}

Json kl_of_reward(const Json&, const ConfigTree& tree, const OptionTable& table) {
  const Json* used = find_value(tree, kUseKlInReward);
  return used == nullptr ? kSetsNothing : kl_in_reward(*used, tree, table);
}

/// verl's words for the estimators; "abs" is none of ours.
Json kl_estimator_word(const Json& value, const ConfigTree&, const OptionTable&) {
  const std::string word = value.is_string() ? value.get<std::string>() : value.dump();
  if (word == "kl" || word == "k1") return "k1";
  if (word == "mse" || word == "k2") return "k2";
  if (word == "low_var_kl" || word == "k3") return "k3";
  fail(ExitCode::kBadConfiguration, "got \"", word, "\", wanted kl, mse or low_var_kl; set reference.estimator to k1, ",
       "k2 or k3");
}

/// verl's -1 is never, which is 0 here.
Json never_below_zero(const Json& value, const ConfigTree&, const OptionTable&) {
  return value == -1 ? Json(0) : value;
}

/// verl names a file and a function apart.
Json custom_reward(const Json& value, const ConfigTree& tree, const OptionTable&) {
  if (!value.is_string() || value.get<std::string>().empty()) return kSetsNothing;  // verl's default: none
  const Json* function = find_value(tree, "custom_reward_function.name");
  std::string text = "python:" + value.get<std::string>();
  if (function != nullptr && function->is_string()) text += ":" + function->get<std::string>();
  return Json::array({text});
}

/// OpenRLHF's is the address of a server or a Python file.
Json remote_reward(const Json& value, const ConfigTree&, const OptionTable&) {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  if (text.starts_with("http")) return Json::array({text});
  if (text.ends_with(".py")) return Json::array({"python:" + text});
  fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted the address of a server or a Python file; set ",
       "reward.functions");
}

/// Read with the file it belongs to.
Json part_of_another(const Json&, const ConfigTree&, const OptionTable&) { return kSetsNothing; }

// Ways out of keys that have no like, where several share one.
constexpr const char* kNameFunctions =
    "functions are named in reward.functions: \"python:FILE.py:FUNCTION\" for your own, or a built-in one";
constexpr const char* kSetSteps = "Keel counts rollout batches; set train.steps";
constexpr const char* kLoggedAnyway = "every step is in metrics.jsonl of run.dir; remove it";
constexpr const char* kNoTruncation =
    "truncated sampling changes the support of mu, so ratios would be biased; remove it";
constexpr const char* kOneDevice = "a run has one device; set run.device";
constexpr const char* kSetFolder = "a run is its folder; set run.dir";

}  // namespace

void add_aliases(OptionTable& t) {
  // Hugging Face TRL (GRPOConfig)
  t.alias("output_dir", "run.dir", "TRL");
  t.alias("seed", "run.seed", "TRL");
  t.alias("model", "model.path", "TRL");
  t.alias("model_name_or_path", "model.path", "TRL");
  t.alias("lora_r", "lora.rank", "TRL");
  t.alias("lora_alpha", "lora.alpha", "TRL");
  t.alias("lora_target_modules", "lora.target_modules", "TRL");
  t.alias("use_rslora", "lora.rank_stabilized", "TRL");
  t.alias("learning_rate", "optimizer.lr", "TRL");
  t.alias("adam_beta1", "optimizer.beta1", "TRL");
  t.alias("adam_beta2", "optimizer.beta2", "TRL");
  t.alias("adam_epsilon", "optimizer.eps", "TRL");
  t.alias("weight_decay", "optimizer.weight_decay", "TRL");
  t.alias("max_grad_norm", "optimizer.max_grad_norm", "TRL");
  t.alias("warmup_steps", "optimizer.warmup_updates", "TRL");
  t.alias("num_generations", "rollout.samples_per_prompt", "TRL");
  t.alias("max_completion_length", "rollout.max_new_tokens", "TRL");
  t.alias("temperature", "rollout.temperature", "TRL");
  t.alias("generation_batch_size", "train.prompts_per_step", "TRL", completions_to_prompts,
          "divided by rollout.samples_per_prompt");
  t.alias("num_iterations", "train.epochs", "TRL");
  t.alias("beta", "reference.kl_coefficient", "TRL");
  t.alias("entropy_coef", "objective.entropy_coefficient", "TRL");
  t.alias("reward_weights", "reward.weights", "TRL");
  t.alias("save_total_limit", "checkpoint.keep", "TRL");
  // and PPOConfig
  t.alias("num_ppo_epochs", "train.epochs", "TRL");
  t.alias("cliprange_value", "critic.value_clip", "TRL");
  t.alias("gamma", "critic.gamma", "TRL");
  t.alias("lam", "critic.lambda", "TRL");
  t.alias("vf_coef", "critic.loss_weight", "TRL");
  t.refuse("kl_coef", "TRL",
           "TRL's PPO takes the KL off the reward, Keel adds it to the loss; set "
           "reference.kl_coefficient");
  t.refuse(
      "max_steps", "TRL",
      "TRL counts optimizer updates, Keel counts rollout batches; set train.steps to max_steps divided by the updates "
      "per batch");
  t.refuse("save_steps", "TRL", "TRL counts optimizer updates, Keel counts rollout batches; set checkpoint.every");
  t.refuse("eval_steps", "TRL", "TRL counts optimizer updates, Keel counts rollout batches; set eval.every");
  t.refuse("per_device_train_batch_size", "TRL",
           "it bounds memory and, with gradient_accumulation_steps, the size of an update at once; set "
           "train.tokens_per_batch and train.sequences_per_update");
  t.refuse("gradient_accumulation_steps", "TRL",
           "micro-batches are cut by train.tokens_per_batch and change no gradient; set train.sequences_per_update");
  t.refuse("max_prompt_length", "TRL",
           "TRL cuts longer prompts, Keel leaves them out and counts them; set data.max_prompt_tokens");
  t.refuse("reward_funcs", "TRL", kNameFunctions);
  t.refuse("dataset_name", "TRL",
           "Keel reads files; name them in data.files, and those to evaluate on in data.eval_files");
  t.refuse("num_train_epochs", "TRL", kSetSteps);
  t.refuse("use_vllm", "TRL", "Keel samples itself, rollout.max_sequences completions at once; remove it");
  t.refuse("bf16", "TRL", "training is in float32, and checkpoint.dtype says what is saved; remove it");
  t.refuse("logging_steps", "TRL", kLoggedAnyway);
  t.refuse("use_bias_correction_kl", "TRL",
           "Keel's KL to the reference is not multiplied by the ratio; remove it (reference.estimator says how it is "
           "estimated)");
  t.refuse("off_policy_mask_threshold", "TRL",
           "the method ds_v32 has this mask; set objective.method=ds_v32 and its delta through objective.parameters");
  t.refuse(
      "mask_truncated_completions", "TRL",
      "completions that were cut off count; what they are worth is the reward's, see overlong in reward.functions");
  t.refuse("top_entropy_quantile", "TRL", "no method here leaves tokens out by their entropy; remove it");
  t.refuse(
      "vllm_importance_sampling_correction", "TRL",
      "Keel samples with the weights that it trains; objective.method=tis, mis or icepop corrects a rounded sampler");
  t.refuse("top_p", "TRL", kNoTruncation);
  t.refuse("top_k", "TRL", kNoTruncation);

  // verl
  t.alias("trainer.default_local_dir", "run.dir", "verl");
  t.alias("trainer.total_training_steps", "train.steps", "verl");
  t.alias("trainer.save_freq", "checkpoint.every", "verl", never_below_zero, "-1 is 0, never");
  t.alias("trainer.test_freq", "eval.every", "verl", never_below_zero, "-1 is 0, never");
  t.alias("actor_rollout_ref.model.path", "model.path", "verl");
  t.alias("actor_rollout_ref.model.lora_rank", "lora.rank", "verl");
  t.alias("actor_rollout_ref.model.lora_alpha", "lora.alpha", "verl");
  t.alias("custom_reward_function.path", "reward.functions", "verl", custom_reward, "python:PATH:NAME");
  t.alias("custom_reward_function.name", "reward.functions", "verl", part_of_another,
          "see custom_reward_function.path");
  t.alias("data.train_files", "data.files", "verl", list_of_names, "one name is a list of one");
  t.alias("data.val_files", "data.eval_files", "verl", list_of_names, "one name is a list of one");
  t.alias("data.max_prompt_length", "data.max_prompt_tokens", "verl");
  t.alias("data.reward_fn_key", "data.source_key", "verl");
  t.alias("data.train_batch_size", "train.prompts_per_step", "verl");
  t.alias("data.max_response_length", "rollout.max_new_tokens", "verl");
  t.alias("actor_rollout_ref.rollout.n", "rollout.samples_per_prompt", "verl");
  t.alias("actor_rollout_ref.rollout.temperature", "rollout.temperature", "verl");
  t.alias("actor_rollout_ref.rollout.val_kwargs.n", "eval.samples", "verl");
  t.alias("actor_rollout_ref.rollout.val_kwargs.temperature", "eval.temperature", "verl");
  t.alias("actor_rollout_ref.rollout.val_kwargs.top_p", "eval.top_p", "verl");
  t.alias("actor_rollout_ref.actor.optim.lr", "optimizer.lr", "verl");
  t.alias("actor_rollout_ref.actor.optim.weight_decay", "optimizer.weight_decay", "verl");
  t.alias("actor_rollout_ref.actor.grad_clip", "optimizer.max_grad_norm", "verl");
  t.alias("actor_rollout_ref.actor.ppo_epochs", "train.epochs", "verl");
  t.alias("actor_rollout_ref.actor.ppo_mini_batch_size", "train.sequences_per_update", "verl", prompts_to_completions,
          "times rollout.samples_per_prompt");
  t.alias("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "train.tokens_per_batch", "verl");
  t.alias("actor_rollout_ref.actor.entropy_coeff", "objective.entropy_coefficient", "verl");
  t.alias(kUseKlLoss, "reference.kl_coefficient", "verl", use_kl_loss,
          "true without kl_loss_coef is verl's default, 0.001; false is none");
  t.alias(kKlLossCoefficient, "reference.kl_coefficient", "verl", kl_loss_coefficient,
          "where use_kl_loss is true; nothing where it is false");
  t.alias("actor_rollout_ref.actor.kl_loss_type", "reference.estimator", "verl", kl_estimator_word,
          "kl is k1, mse is k2, low_var_kl is k3");
  t.alias(kUseKlInReward, "reference.kl_coefficient", "verl", kl_in_reward, "false is none; true is refused");
  t.alias("algorithm.kl_ctrl.kl_coef", "reference.kl_coefficient", "verl", kl_of_reward,
          "nothing where use_kl_in_reward is not true");
  t.alias("algorithm.gamma", "critic.gamma", "verl");
  t.alias("algorithm.lam", "critic.lambda", "verl");
  t.alias("critic.cliprange_value", "critic.value_clip", "verl");
  t.alias("critic.optim.lr", "critic.lr", "verl");
  t.alias("trainer.critic_warmup", "critic.warmup_steps", "verl");
  t.refuse("reward_fn", "verl", kNameFunctions);
  t.refuse("reward_model.reward_manager", "verl",
           "which signature a function has is read off it; set reward.functions");
  t.refuse("reward_model.enable", "verl",
           "a reward model is a server; set reward.functions to its address, http://...");
  t.refuse("trainer.total_epochs", "verl", kSetSteps);
  t.refuse("trainer.n_gpus_per_node", "verl", kOneDevice);
  t.refuse("trainer.nnodes", "verl", kOneDevice);
  t.refuse("trainer.project_name", "verl", kSetFolder);
  t.refuse("trainer.experiment_name", "verl", kSetFolder);
  t.refuse("trainer.logger", "verl", kLoggedAnyway);
  t.refuse("data.val_batch_size", "verl", "set eval.prompts, the number of prompts to evaluate on");
  t.refuse("data.filter_overlong_prompts", "verl",
           "prompts that are longer than data.max_prompt_tokens are always left out, and counted; remove it");
  t.refuse(
      "algorithm.rollout_correction", "verl",
      "Keel samples with the weights that it trains; objective.method=tis, mis or icepop corrects a rounded sampler");
  t.refuse("algorithm.filter_groups", "verl",
           "groups of equal rewards have no gradient and are counted as reward/zero_std_groups; remove it");
  t.refuse("actor_rollout_ref.rollout.name", "verl", "Keel samples itself; remove it");
  t.refuse("actor_rollout_ref.rollout.gpu_memory_utilization", "verl",
           "memory is bounded by rollout.max_sequences; remove it");
  t.refuse("actor_rollout_ref.rollout.tensor_model_parallel_size", "verl", kOneDevice);
  t.refuse("actor_rollout_ref.rollout.top_p", "verl", kNoTruncation);
  t.refuse("actor_rollout_ref.rollout.top_k", "verl", kNoTruncation);
  t.refuse("data.truncation", "verl",
           "Keel never cuts a prompt; one that is longer than data.max_prompt_tokens is left out and counted");
  t.refuse("actor_rollout_ref.actor.optim.lr_warmup_steps", "verl",
           "verl counts rollout batches there, Keel counts updates; set optimizer.warmup_updates");
  t.refuse("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "verl",
           "micro-batches are cut by tokens and change no gradient; set train.tokens_per_batch");

  // OpenRLHF (its arguments, with _ for -)
  t.alias("pretrain", "model.path", "OpenRLHF");
  t.alias("save_path", "run.dir", "OpenRLHF");
  t.alias("prompt_data", "data.files", "OpenRLHF", list_of_names, "one name is a list of one");
  t.alias("input_key", "data.prompt_key", "OpenRLHF");
  t.alias("label_key", "data.answer_key", "OpenRLHF");
  t.alias("remote_rm_url", "reward.functions", "OpenRLHF", remote_reward, "an address, or python:FILE.py");
  t.alias("n_samples_per_prompt", "rollout.samples_per_prompt", "OpenRLHF");
  t.alias("generate_max_len", "rollout.max_new_tokens", "OpenRLHF");
  t.alias("rollout_batch_size", "train.prompts_per_step", "OpenRLHF");
  t.alias("train_batch_size", "train.sequences_per_update", "OpenRLHF");
  t.alias("actor_learning_rate", "optimizer.lr", "OpenRLHF");
  t.alias("critic_learning_rate", "critic.lr", "OpenRLHF");
  t.alias("lambd", "critic.lambda", "OpenRLHF");
  t.alias("value_clip", "critic.value_clip", "OpenRLHF");
  t.refuse("prompt_max_len", "OpenRLHF",
           "set data.max_prompt_tokens: longer prompts are left out and counted, not cut");
  t.refuse("init_kl_coef", "OpenRLHF",
           "OpenRLHF takes the KL off the reward, Keel adds it to the loss; set reference.kl_coefficient");
  t.refuse("max_samples", "OpenRLHF", kSetSteps);

  add_objective_aliases(t);
}

}  // namespace keel
