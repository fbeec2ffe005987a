#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/train/config/config.h"
#include "keel/train/config/foreign_adapter.h"
#include "keel/train/config/foreign_mapping.h"
#include "keel/train/config/foreign_names.h"
#include "keel/train/config/foreign_objective.h"
#include "keel/train/config/foreign_reward.h"
#include "keel/train/config/foreign_schedule.h"
#include "keel/train/config/foreign_sizes.h"
#include "keel/train/config/foreign_tools.h"

namespace keel {
namespace {

/// A count that a product of two cannot carry out of 63 bits; 0 for anything else.
int64_t count_of(const Json& value) {
  constexpr int64_t kMaxCount = int64_t{1} << 32;
  const int64_t count = value.is_number_integer() ? value.get<int64_t>() : 0;
  return count < 0 || count > kMaxCount ? 0 : count;
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

/// Hugging Face's and verl's words for AdamW, and for one with 8-bit moments.
Json optimizer_word(const Json& value, const ConfigTree&, const OptionTable&) {
  const std::string word = word_of(value);
  if (contains({"adamw_torch", "adamw_torch_fused", "adamw_hf", "AdamW"}, word)) return "float32";
  if (contains({"adamw_8bit", "adamw_bnb_8bit", "AdamW8bit"}, word)) return "8bit";
  fail(ExitCode::kBadConfiguration, "got ", value.dump(),
       ", and the optimizer is AdamW, with 8-bit moments where it is ",
       "adamw_8bit; remove it, or set optimizer.moments");
}

constexpr const char* kWordsByName = "each as name=value";

Json words_by_name(const Json& value, const ConfigTree&, const OptionTable&) {
  if (value.is_null()) return kSetsNothing;
  const Json named = mapping_in_text(value);
  if (!named.is_object())
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted names with values, as {enable_thinking: false}");
  Json words = Json::array();
  // Texts in quotes, too: without them "False" would be read as Python's.
  for (const auto& [name, word] : named.items()) words.push_back(name + "=" + word.dump());
  return words;
}

/// verl's -1 is never, which is 0 here.
Json never_below_zero(const Json& value, const ConfigTree&, const OptionTable&) {
  return value == -1 ? Json(0) : value;
}

/// TRL's null samples up to the end of the model's positions.
Json longest_of_trl(const Json& value, const ConfigTree&, const OptionTable&) {
  if (value.is_null())
    fail(ExitCode::kBadConfiguration, "got null, which is no limit there; set rollout.max_new_tokens, the longest ",
         "completion");
  return value;
}

constexpr const char* kKeepsAll = "null, all of them, is not taken over";

/// For a name that means a little more or less than ours.
Json as_it_is(const Json& value, const ConfigTree&, const OptionTable&) { return value; }

/// The Trainer's names of what an evaluation measures, with its prefix or without.
Json evaluation_key(const Json& value, const ConfigTree&, const OptionTable&) {
  if (!value.is_string()) return value.is_null() ? kSetsNothing : value;
  const std::string name = value.get<std::string>();
  return name.starts_with("eval/") ? name : "eval/" + (name.starts_with("eval_") ? name.substr(5) : name);
}

/// A critic's setting, which the program has though its advantages need no critic, and does not read there.
AliasConverter of_the_critic(std::string advantage) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable&) -> Json {
    constexpr const char* kOurs = "objective.advantage";
    const bool ours_holds =
        said(tree, kOurs) != nullptr && (on_command_line(tree, kOurs) || !on_command_line(tree, advantage));
    const std::string word = word_at(tree, ours_holds ? kOurs : advantage);
    return word.empty() || word == "gae" ? value : kSetsNothing;
  };
}

/// The discount, which one other kind of advantages has there too.
AliasConverter discount(std::string advantage, std::string discounted) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    if (word_at(tree, advantage) == discounted && value != 1)
      fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", by which ", advantage, " ", discounted,
           " discounts rewards; Keel discounts with a critic only: set it to 1, or choose other advantages");
    return of_the_critic(advantage)(value, tree, table);
  };
}

/// One of two numbers in a list.
AliasConverter element(size_t place) {
  return [=](const Json& value, const ConfigTree&, const OptionTable&) -> Json {
    if (!value.is_array() || value.size() != 2)
      fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted a list of two numbers");
    return value[place];
  };
}

/// verl's false takes the likeliest token, whatever the temperature.
Json validation_by_sampling(const Json& value, const ConfigTree& tree, const OptionTable&) {
  constexpr const char* kTemperature = "actor_rollout_ref.rollout.val_kwargs.temperature";
  if (!value.is_boolean()) fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted true or false");
  const Json* temperature = said(tree, kTemperature);
  if (value == false && temperature != nullptr && *temperature != 0)
    fail(ExitCode::kBadConfiguration, "got false, which is greedy, but ", kTemperature, " is ", temperature->dump(),
         "; remove one of the two");
  return value == false && temperature == nullptr ? Json(0) : kSetsNothing;
}

/// TRL's flags: bf16 is on by default, so that false says something, and fp16 is not.
Json bf16_flag(const Json& value, const ConfigTree& tree, const OptionTable&) {
  if (!value.is_boolean()) fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted true or false");
  const Json* fp16 = said(tree, "fp16");
  const bool half = fp16 != nullptr && *fp16 == true;
  if (value == true && half)
    fail(ExitCode::kBadConfiguration, "got true, but fp16 is true as well; keep one of them, or set run.precision");
  return value == true ? Json("bf16") : half ? kSetsNothing : Json("float32");
}

Json fp16_flag(const Json& value, const ConfigTree&, const OptionTable&) {
  if (!value.is_boolean()) fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted true or false");
  return value == true ? Json("fp16") : kSetsNothing;
}

/// torch's words for types, and verl's short ones.
Json type_word(const Json& value, const ConfigTree&, const OptionTable&) {
  const std::string word = value.is_string() ? value.get<std::string>() : value.dump();
  if (word == "bfloat16" || word == "bf16") return "bf16";
  if (word == "float16" || word == "fp16" || word == "half") return "fp16";
  if (word == "float32" || word == "fp32" || word == "float") return "float32";
  if (word == "auto" || word == "null") return kSetsNothing;
  fail(ExitCode::kBadConfiguration, "got ", value.dump(),
       ", wanted bfloat16, float16 or float32; set run.precision to ", "bf16, fp16 or float32");
}

/// verl has several names for it, which say the same in what it writes down itself; those that differ are told.
const Names kVerlTypes = {"actor_rollout_ref.rollout.dtype", "actor_rollout_ref.actor.fsdp_config.dtype",
                          "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype",
                          "actor_rollout_ref.model.torch_dtype"};

AliasConverter type_of_verl(std::string name) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    for (auto earlier = kVerlTypes.begin(); *earlier != name; ++earlier)
      if (const Json* other = said(tree, *earlier); other != nullptr && *other == value) return kSetsNothing;
    return type_word(value, tree, table);
  };
}

/// TRL's torch_dtype is that of the weights; its flags compute in another type, and bf16 is on where nothing is said.
Json weights_type(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  const Json type = type_word(value, tree, table);
  const bool flagged = said(tree, "bf16") != nullptr || said(tree, "fp16") != nullptr;
  return flagged || type == "float32" ? kSetsNothing : type;
}

/// verl's critic may be any model, ours begins as the policy.
Json model_of_critic(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  const std::string policy = word_of(table.get("model.path"));
  if (of_the_critic(kAdvEstimator)(value, tree, table).is_discarded() || word_of(value) == policy) return kSetsNothing;
  fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", but a critic starts as a copy of the policy, ", policy,
       ", or reads the policy's states (critic.body); remove it");
}

/// verl's false leaves the completions of a prompt together, as ours are by default.
Json order_of_rollouts(const Json& value, const ConfigTree&, const OptionTable&) {
  if (!value.is_boolean() && !value.is_null())
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted true or false; or set train.shuffle");
  return value == true ? Json("rollouts") : kSetsNothing;
}

}  // namespace

void add_trainer_aliases(OptionTable& t) {
  t.alias("output_dir", "run.dir", "TRL");
  t.alias("seed", "run.seed", "TRL");
  t.alias("full_determinism", "run.deterministic", "TRL");
  t.alias("bf16", "run.precision", "TRL", bf16_flag, "true is bf16; false is float32, unless fp16 is true");
  t.alias("fp16", "run.precision", "TRL", fp16_flag, "true is fp16");
  for (const char* name : {"torch_dtype", "dtype"})
    t.alias(name, "run.precision", "TRL", weights_type,
            "bfloat16 is bf16, float16 is fp16; nothing where it is float32, or bf16 or fp16 is set");
  t.alias("model", "model.path", "TRL");
  t.alias("model_name_or_path", "model.path", "TRL");
  add_trl_adapter(t);
  t.alias("activation_checkpointing", "train.recompute_activations", "TRL", unless_null, "null says nothing");
  t.alias("gradient_checkpointing", "train.recompute_activations", "TRL", unless_said_by("activation_checkpointing"),
          "its older name; null says nothing");
  t.alias("save_total_limit", "checkpoint.keep", "TRL", unless_null, kKeepsAll);
}

void add_aliases(OptionTable& t) {
  add_reward_functions(t);
  // Hugging Face TRL (GRPOConfig)
  add_trainer_aliases(t);
  t.alias("learning_rate", "optimizer.lr", "TRL");
  t.alias("adam_beta1", "optimizer.beta1", "TRL");
  t.alias("adam_beta2", "optimizer.beta2", "TRL");
  t.alias("adam_epsilon", "optimizer.eps", "TRL");
  t.alias("weight_decay", "optimizer.weight_decay", "TRL");
  t.alias("max_grad_norm", "optimizer.max_grad_norm", "TRL");
  t.alias("num_generations", "rollout.samples_per_prompt", "TRL");
  t.alias("num_generations_eval", "eval.samples", "TRL", unless_null, "null says nothing");
  t.alias("max_completion_length", "rollout.max_new_tokens", "TRL", longest_of_trl, "null, no limit, is refused");
  t.alias("temperature", "rollout.temperature", "TRL");
  t.alias("num_iterations", "train.epochs", "TRL");
  t.alias("beta", "reference.kl_coefficient", "TRL");
  t.alias("entropy_coef", "objective.entropy_coefficient", "TRL");
  t.alias("dataset_name", "data.files", "TRL", files_of_dataset("data"), "a file; the name of a data set is refused");
  t.alias("dataset_prompt_column", "data.prompt_key", "TRL");
  t.alias("system_prompt", "data.system_prompt", "TRL", unless_null, "of open-r1");
  t.alias("shuffle_dataset", "data.shuffle", "TRL", unless_null, "null is true");
  t.alias("chat_template_kwargs", "data.template_words", "TRL", words_by_name, kWordsByName);
  t.alias("max_prompt_length", "data.max_prompt_tokens", "TRL", unless_null,
          "longer prompts are left out and counted, where TRL cut them");
  t.alias("mask_truncated_completions", "train.mask_truncated", "TRL");
  t.alias("optim", "optimizer.moments", "TRL", optimizer_word, "adamw_8bit and adamw_bnb_8bit are 8bit");
  t.alias("load_best_model_at_end", "checkpoint.keep_best", "TRL", as_it_is,
          "kept as checkpoints/best; a run still stands for its newest checkpoint");
  t.alias("metric_for_best_model", "checkpoint.best_metric", "TRL", evaluation_key, "eval_reward is eval/reward");
  // and PPOConfig
  t.alias("num_ppo_epochs", "train.epochs", "TRL");
  t.alias("cliprange_value", "critic.value_clip", "TRL");
  const std::string with_critic = "nothing where the advantages need no critic";
  t.alias("gamma", "critic.gamma", "TRL", discount("advantage_estimator", "reinforce"), with_critic);
  t.alias("lam", "critic.lambda", "TRL");
  t.alias("vf_coef", "critic.loss_weight", "TRL");
  t.alias("kl_coef", "reference.kl_in_reward", "TRL");

  // verl
  t.alias("trainer.default_local_dir", "run.dir", "verl");
  t.alias(
      "trainer.total_training_steps", "train.steps", "verl",
      [](const Json& value, const ConfigTree& tree, const OptionTable&) {
        return value.is_null() || passes_are_typed(tree) ? kSetsNothing : value;
      },
      "null: by trainer.total_epochs");
  t.alias("trainer.save_freq", "checkpoint.every", "verl", never_below_zero, "-1 is 0, never");
  t.alias("trainer.max_actor_ckpt_to_keep", "checkpoint.keep", "verl", unless_null, kKeepsAll);
  t.alias("trainer.test_freq", "eval.every", "verl", never_below_zero, "-1 is 0, never");
  t.alias("actor_rollout_ref.model.path", "model.path", "verl");
  t.alias("data.train_files", "data.files", "verl", list_of_names, "one name is a list of one");
  t.alias("data.val_files", "data.eval_files", "verl", list_of_names, "one name is a list of one");
  t.alias("data.apply_chat_template_kwargs", "data.template_words", "verl", words_by_name, kWordsByName);
  t.alias("data.max_prompt_length", "data.max_prompt_tokens", "verl");
  t.alias("data.reward_fn_key", "data.source_key", "verl");
  t.alias("data.seed", "run.seed", "verl", unless_null, "the one seed");
  t.alias("data.train_batch_size", "train.prompts_per_step", "verl");
  t.alias("data.max_response_length", "rollout.max_new_tokens", "verl");
  for (const std::string& name : kVerlTypes)
    t.alias(name, "run.precision", "verl", type_of_verl(name), "bfloat16 is bf16, float16 is fp16");
  t.alias("actor_rollout_ref.actor.fsdp_config.full_determinism", "run.deterministic", "verl");
  t.alias("actor_rollout_ref.rollout.n", "rollout.samples_per_prompt", "verl");
  t.alias("actor_rollout_ref.rollout.temperature", "rollout.temperature", "verl");
  t.alias("actor_rollout_ref.rollout.val_kwargs.n", "eval.samples", "verl");
  t.alias("actor_rollout_ref.rollout.val_kwargs.temperature", "eval.temperature", "verl");
  t.alias("actor_rollout_ref.rollout.val_kwargs.top_p", "eval.top_p", "verl");
  t.alias("actor_rollout_ref.rollout.val_kwargs.do_sample", "eval.temperature", "verl", validation_by_sampling,
          "false is 0, greedy");
  t.alias("actor_rollout_ref.actor.optim.lr", "optimizer.lr", "verl");
  t.alias("actor_rollout_ref.actor.optim.weight_decay", "optimizer.weight_decay", "verl");
  t.alias("actor_rollout_ref.actor.optim.betas", "optimizer.beta1", "verl", element(0), "the first");
  t.alias("actor_rollout_ref.actor.optim.betas", "optimizer.beta2", "verl", element(1), "the second");
  t.alias("actor_rollout_ref.actor.optim.optimizer", "optimizer.moments", "verl", optimizer_word, "AdamW8bit is 8bit");
  t.alias("actor_rollout_ref.model.enable_gradient_checkpointing", "train.recompute_activations", "verl");
  t.alias("actor_rollout_ref.actor.grad_clip", "optimizer.max_grad_norm", "verl",
          unless_said_by("actor_rollout_ref.actor.optim.clip_grad"), "the same value");
  t.alias("actor_rollout_ref.actor.optim.clip_grad", "optimizer.max_grad_norm", "verl");
  t.alias("actor_rollout_ref.actor.ppo_epochs", "train.epochs", "verl");
  t.alias("actor_rollout_ref.actor.ppo_mini_batch_size", "train.sequences_per_update", "verl", prompts_to_completions,
          "times rollout.samples_per_prompt");
  t.alias("actor_rollout_ref.actor.shuffle", "train.shuffle", "verl", order_of_rollouts,
          "true is rollouts; false is prompts, the default");
  t.alias("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "train.tokens_per_batch", "verl");
  t.alias("actor_rollout_ref.actor.entropy_coeff", "objective.entropy_coefficient", "verl");
  t.alias(kUseKlLoss, "reference.kl_coefficient", "verl", use_kl_loss,
          "true without kl_loss_coef is verl's default, 0.001; false is none");
  t.alias(kKlLossCoefficient, "reference.kl_coefficient", "verl", kl_loss_coefficient,
          "where use_kl_loss is true; nothing where it is false");
  t.alias("actor_rollout_ref.actor.kl_loss_type", "reference.estimator", "verl", kl_estimator_word,
          "kl is k1, mse is k2, low_var_kl is k3");
  t.alias("algorithm.gamma", "critic.gamma", "verl", discount(kAdvEstimator, "reinforce_plus_plus"), with_critic);
  t.alias("algorithm.lam", "critic.lambda", "verl", of_the_critic(kAdvEstimator), with_critic);
  t.alias("critic.cliprange_value", "critic.value_clip", "verl", of_the_critic(kAdvEstimator), with_critic);
  t.alias("critic.optim.lr", "critic.lr", "verl", of_the_critic(kAdvEstimator), with_critic);
  t.alias("critic.model.path", "critic.body", "verl", model_of_critic,
          "sets nothing where it is the policy's; all else is refused");
  t.alias("trainer.critic_warmup", "critic.warmup_steps", "verl", of_the_critic(kAdvEstimator), with_critic);

  // OpenRLHF (its arguments, with _ for -)
  t.alias("pretrain", "model.path", "OpenRLHF");
  t.alias("save_path", "run.dir", "OpenRLHF");
  t.alias("prompt_data", "data.files", "OpenRLHF", list_of_names, "one name is a list of one");
  t.alias("input_key", "data.prompt_key", "OpenRLHF");
  t.alias("label_key", "data.answer_key", "OpenRLHF");
  t.alias("n_samples_per_prompt", "rollout.samples_per_prompt", "OpenRLHF");
  t.alias("generate_max_len", "rollout.max_new_tokens", "OpenRLHF");
  t.alias("rollout_batch_size", "train.prompts_per_step", "OpenRLHF");
  t.alias("train_batch_size", "train.sequences_per_update", "OpenRLHF");
  t.alias("actor_learning_rate", "optimizer.lr", "OpenRLHF");
  t.alias("critic_learning_rate", "critic.lr", "OpenRLHF", of_the_critic("advantage_estimator"), with_critic);
  t.alias("adam_betas", "optimizer.beta1", "OpenRLHF", element(0), "the first");
  t.alias("adam_betas", "optimizer.beta2", "OpenRLHF", element(1), "the second");
  t.alias("l2", "optimizer.weight_decay", "OpenRLHF");
  t.alias("max_norm", "optimizer.max_grad_norm", "OpenRLHF");
  t.alias("eval_temperature", "eval.temperature", "OpenRLHF");
  t.alias("eval_n_samples_per_prompt", "eval.samples", "OpenRLHF");
  t.alias("lambd", "critic.lambda", "OpenRLHF", of_the_critic("advantage_estimator"), with_critic);
  t.alias("value_clip", "critic.value_clip", "OpenRLHF", of_the_critic("advantage_estimator"), with_critic);

  add_adapter_aliases(t);
  add_objective_aliases(t);
  add_reward_aliases(t);
  add_size_aliases(t);
  add_schedule_aliases(t);
  add_tool_aliases(t);
  add_refusals(t);
}

}  // namespace keel
