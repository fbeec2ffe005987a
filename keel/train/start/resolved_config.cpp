#include "keel/train/start/resolved_config.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "keel/reward/reward_files.h"
#include "keel/train/config/sft_settings.h"
#include "keel/train/start/starting_model.h"
#include "keel/train/update/critic_training.h"

namespace keel {
namespace {

/// Settings by path. Those without effect are dropped.
class Settings {
 public:
  explicit Settings(const Config& config) {
    const Json configured = to_json(config);
    for (const auto& [section, values] : configured.items())
      for (const auto& [key, value] : values.items()) all_[section + "." + key] = value;
  }

  Json& operator[](const std::string& path) { return all_[path]; }
  /// Drops a setting, or a whole section if the path ends in ".".
  void drop(const std::string& path) {
    Json kept = Json::object();
    for (const auto& [name, value] : all_.items())
      if (name != path && !(path.ends_with('.') && name.starts_with(path))) kept[name] = value;
    all_ = std::move(kept);
  }
  void drop_all(std::initializer_list<const char*> paths) {
    for (const char* path : paths) drop(path);
  }
  /// Drops null, "" and [].
  void drop_empty() {
    Json kept = Json::object();
    for (const auto& [name, value] : all_.items())
      if (!value.is_null() && value != Json("") && value != Json::array()) kept[name] = value;
    all_ = std::move(kept);
  }
  Json take() { return std::move(all_); }

 private:
  Json all_ = Json::object();
};

int64_t count_elements(const std::vector<NamedTensor>& tensors) {
  int64_t count = 0;
  for (const NamedTensor& tensor : tensors) count += tensor.value.numel();
  return count;
}

void fill_model(Settings& used, const Config& config, const LoadedModel& policy) {
  const ModelConfig& shape = policy.model.config();
  used["model.type"] = shape.model_type;
  used["model.layers"] = shape.num_hidden_layers;
  used["model.hidden_size"] = shape.hidden_size;
  used["model.heads"] = shape.num_attention_heads;
  used["model.kv_heads"] = shape.num_key_value_heads;
  used["model.intermediate_size"] = shape.intermediate_size;
  used["model.vocabulary"] = shape.vocab_size;
  used["model.max_positions"] = shape.max_position_embeddings;
  used["model.parameters"] = shape.parameter_count();
  if (config.model.path.empty())
    used.drop("model.random_weights");
  else
    used.drop("model.initializer_range");
  if (!config.lora.used()) return used.drop("lora.");
  used["lora.parameters"] = count_elements(policy.model.adapter());
  if (config.lora.adapter.empty()) return;
  used.drop("lora.");  // the adapter's file has its settings
  used["lora.adapter"] = config.lora.adapter;
  used["lora.dropout"] = config.lora.dropout;
  used[kAdapterFingerprintKey] = adapter_fingerprint(config.lora.adapter);
  used["lora.parameters"] = count_elements(policy.model.adapter());
  for (const auto& [key, name] :
       {std::pair{"r", "rank"}, {"lora_alpha", "alpha"}, {"target_modules", "target_modules"}})
    if (policy.adapter.contains(key)) used[std::string("lora.") + name] = policy.adapter[key];
}

void fill_prompts(Settings& used, const Config& config, const PromptSources& prompt_sources) {
  if (config.data.files.empty()) {
    used.drop("data.");
    if (config.task.name != "chains")
      used.drop_all({"task.modulus", "task.steps", "task.words", "task.careful", "task.error", "task.mode"});
  } else {
    used.drop("task.");
    used["data.max_prompt_tokens"] = prompt_sources.prompt_limit();
  }
  if (!config.rollout.dynamic_sampling) used.drop("rollout.max_batches");
  const bool default_reward = config.reward.functions.empty();
  if (default_reward) used["reward.functions"] = Json::array({config.data.files.empty() ? "task" : "math"});
  if (config.reward.weights.empty())
    used["reward.weights"] = std::vector<double>(default_reward ? 1 : config.reward.functions.size(), 1.0);
  if (config.reward.overlong_buffer == 0) used.drop_all({"reward.overlong_buffer", "reward.overlong_penalty"});
  used["reward.files"] = reward_files(config.reward);
  if (!config.eval.prompts)
    used["eval.prompts"] = config.data.files.empty() ? Json(config.prompts_per_evaluation()) : Json("all rows");
  if (config.eval.prompts == 0 || !prompt_sources.has_held_out()) used.drop("eval.");
}

/// Replaces null by the method's own values.
void fill_objective(Settings& used, const Config& config) {
  const Objective objective =
      make_objective(config.objective, static_cast<double>(resolve_max_new_tokens(config)), config.reference);
  used["objective.method"] = objective.method.name;
  used["objective.advantage"] = objective.method.advantage;
  used["objective.aggregation"] = objective.method.aggregation;
  used.drop_all({"objective.delta", "objective.delta_low", "objective.delta_high", "objective.anchor",
                 "objective.ratio_cap", "objective.parameters", "objective.horizon", "objective.advantage_eps"});
  if (objective.method.advantage == "grpo" || objective.method.advantage == "gdpo")
    used["objective.advantage_eps"] = objective.advantage_eps;
  const auto path = [](const std::string& name) {
    return "objective." + (name == "low" || name == "high" ? "delta_" + name : name);
  };
  const TrustRegion& region = objective.method.region;
  for (const auto& [name, value] : number_parameters(region))
    if (has_effect(region, name)) used[path(name)] = std::isinf(value) ? Json("none") : Json(value);
  for (const auto& [name, choice] : choice_parameters(region))
    if (has_effect(region, name)) used[path(name)] = choice;
  if (objective.method.aggregation == "seq_mean_token_sum_norm") used["objective.horizon"] = objective.length_divisor;
  if (objective.target_kept) used["objective.target_kept"] = *objective.target_kept;
  if (config.reference.kl_coefficient == 0) used.drop("reference.estimator");
  if (config.reference.kl_in_reward == 0) used.drop("reference.kl_in_reward_estimator");
  if (objective.reward_kl.coefficient > 0 && objective.reward_kl.target)
    used["reference.kl_in_reward_horizon"] = objective.reward_kl.horizon;
  else
    used.drop_all({"reference.kl_in_reward_target", "reference.kl_in_reward_horizon"});
}

void fill_critic(Settings& used, const Config& config) {
  if (!config.critic.enabled()) return used.drop("critic.");
  used["critic.lr"] = critic_optimizer_options(config.critic, config.optimizer).lr;
  if (!config.critic.value_clip) used["critic.value_clip"] = "none";
}

/// Resolves the supervised phase. A run without RL drops all settings of RL.
void fill_sft(Settings& used, const Config& config, const Demonstrations& demonstrations) {
  if (!config.sft.has_steps()) return used.drop("sft.");
  used["sft.lr"] = config.sft_optimizer().lr;
  if (!demonstrations.from_files()) {
    used.drop_all(
        {"sft.held_out", "sft.loss_on", "sft.max_tokens", "sft.schedule", "sft.min_lr_ratio", "sft.eval_every"});
    return;
  }
  used.drop_all({"sft.stop_loss", "sft.noisy_steps", "sft.noisy_lr"});
  used["sft.max_tokens"] = demonstrations.max_row_tokens();
  const Json configured = to_json(config);
  if (!config.has_rl()) used.drop("data.");
  for (const auto& [key, value] : configured["data"].items())
    if (applies_to_sft_files(key)) used["data." + key] = value;
  if (config.has_rl()) return;
  for (const char* section : {"task.", "rollout.", "reward.", "objective.", "reference.", "critic.", "optimizer.",
                              "health.", "eval.", "train."})
    used.drop(section);
  for (const char* key : {"tokens_per_batch", "recompute_activations"})
    used[std::string("train.") + key] = configured["train"][key];
}

}  // namespace

Json resolved_config(const Config& config, const LoadedModel& policy, const PromptSources& prompt_sources,
                     const Demonstrations& demonstrations) {
  Settings used(config);
  used["run.threads"] = at::get_num_threads();
  used["rollout.max_new_tokens"] = resolve_max_new_tokens(config);
  used["train.sequences_per_update"] = config.sequences_per_update();
  fill_model(used, config, policy);
  fill_prompts(used, config, prompt_sources);
  fill_objective(used, config);
  fill_critic(used, config);
  fill_sft(used, config, demonstrations);
  used.drop_empty();
  return used.take();
}

}  // namespace keel
