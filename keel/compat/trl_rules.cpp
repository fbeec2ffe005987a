#include <algorithm>
#include <cmath>
#include <sstream>

#include "keel/compat/conversions.h"
#include "keel/compat/import.h"

namespace keel::compat {
namespace {

/// Settings that are in different sections for SFT and RL.
struct Phase {
  std::string optimizer_section, length_section, eval_interval;
  int64_t updates_per_step;  // TRL counts updates, Keel rollout batches
};

/// Converts updates to steps, rounded up. A number below 1 is a fraction of max_steps.
int64_t updates_to_steps(const Import& r, const std::string& key, const Phase& phase) {
  const double number = r.number(key);
  const Json total = r.value("max_steps");
  double updates = number;
  if (number > 0 && number < 1 && total.is_number() && total > 0) updates = std::ceil(number * total.get<double>());
  if (updates < 1 || updates != std::floor(updates) || updates > 1e15)
    r.fail_at(key, "expected a number of updates, or a fraction together with max_steps");
  return static_cast<int64_t>(std::ceil(updates / static_cast<double>(phase.updates_per_step)));
}

void set_schedule(Import& r, const Phase& phase) {
  const std::string type = r.text("lr_scheduler_type"), floor = phase.optimizer_section + ".min_lr_ratio";
  r.set(phase.optimizer_section + ".schedule", convert_key(r, "lr_scheduler_type", to_schedule), "lr_scheduler_type");
  const Json rate = r.value("lr_scheduler_kwargs.min_lr_rate"), min_lr = r.value("lr_scheduler_kwargs.min_lr");
  const Json lr = r.setting(phase.optimizer_section + ".lr");
  if (!rate.is_null()) r.set(floor, rate, "lr_scheduler_kwargs.min_lr_rate");
  if (min_lr.is_number() && lr.is_number() && (lr <= 0 || min_lr > lr))
    r.refuse("lr_scheduler_kwargs.min_lr",
             "got " + min_lr.dump() + ", expected at most the learning rate, " + lr.dump());
  else if (min_lr.is_number() && lr.is_number())
    r.set(floor, min_lr.get<double>() / lr.get<double>(), "lr_scheduler_kwargs.min_lr", "divided by the learning rate");
  if (type == "cosine_with_min_lr" && !r.is_set(floor))
    r.refuse("lr_scheduler_type", "cosine_with_min_lr needs a minimum. Fix: set lr_scheduler_kwargs.min_lr_rate");
  if (type == "constant") return;  // transformers' constant has no warm-up
  const Json steps = r.value("warmup_steps"), ratio = r.value("warmup_ratio");
  if (steps.is_number() && steps > 0)
    r.set(phase.optimizer_section + ".warmup_updates", steps >= 1 ? Json(std::floor(steps.get<double>())) : steps,
          "warmup_steps");
  else if (!ratio.is_null())
    set_warmup_fraction(r, phase.optimizer_section + ".warmup_updates", "warmup_ratio");
}

void set_length(Import& r, const Phase& phase) {
  const Json steps = r.value("max_steps");
  if (r.user_sets(phase.length_section + ".steps") || r.user_sets(phase.length_section + ".data_epochs")) return;
  if (steps.is_null() || (steps.is_number() && steps <= 0))
    return r.set(phase.length_section + ".data_epochs", r.value("num_train_epochs"), "num_train_epochs");
  const int64_t count = steps.is_number_integer() ? steps.get<int64_t>() : 0, updates = phase.updates_per_step;
  if (count == 0 || count % updates != 0)
    return r.refuse("max_steps", "got " + steps.dump() + " updates, expected a multiple of " + std::to_string(updates) +
                                     ", the updates per rollout batch");
  r.set(phase.length_section + ".steps", count / updates, "max_steps", updates > 1 ? "in rollout batches" : "");
}

/// Sets the intervals of checkpoints and evaluations. Returns whether TRL evaluates.
bool set_intervals(Import& r, const Phase& phase) {
  const std::string rounded = phase.updates_per_step > 1 ? "updates converted to rollout batches, rounded up" : "";
  const auto check = [&](const char* key) {
    static const std::vector<std::string> kStrategies = {"", "no", "false", "steps", "epoch", "best"};
    if (std::ranges::count(kStrategies, r.text(key)) == 0)
      r.refuse(key, "got " + r.text(key) + ", expected no, steps or epoch");
    if (r.text(key) == "epoch" || r.text(key) == "best")
      r.remark(key + std::string(": epochs are not supported; checkpoint.every and ") + phase.eval_interval +
               " count steps");
  };
  const char* strategy = r.find("eval_strategy") ? "eval_strategy" : "evaluation_strategy";
  check("save_strategy");
  check(strategy);
  const std::string save = r.text("save_strategy"), evaluate = r.text(strategy);
  if (save == "no" || save == "false")
    r.set("checkpoint.every", 0, "save_strategy");
  else if (r.find("save_steps") && (save.empty() || save == "steps"))
    r.set("checkpoint.every", updates_to_steps(r, "save_steps", phase), "save_steps", rounded);
  const char* interval = r.find("eval_steps") ? "eval_steps" : "logging_steps";
  if (evaluate == "steps") r.set(phase.eval_interval, updates_to_steps(r, interval, phase), interval, rounded);
  return !evaluate.empty() && evaluate != "no" && evaluate != "false";
}

/// Completions (or rows) of one forward and backward pass over all devices.
int64_t device_batch(const Import& r) { return r.count("per_device_train_batch_size") * r.count("num_processes"); }

void remark_processes(Import& r) {
  if (!r.find("num_processes"))
    r.remark("num_processes is assumed to be 1. For a recipe that runs on N GPUs, add num_processes=N");
}

constexpr const char* kPrompts = "train.prompts_per_step";
constexpr const char* kUpdate = "train.sequences_per_update";

/// The number of updates per rollout batch, including epochs.
int64_t updates_per_step(const Import& r) {
  const int64_t all = keel_count(r, kPrompts) * keel_count(r, "rollout.samples_per_prompt"),
                update = keel_count(r, kUpdate);
  return keel_count(r, "train.epochs") * (all % update == 0 ? all / update : 1);
}

void trl_precision(Import& r) {
  const bool bf16 = r.is_true("bf16"), fp16 = r.is_true("fp16");
  if (bf16 && fp16) r.refuse("bf16", "fp16 is true as well. Keep one");
  if (bf16 || fp16) return r.set("run.precision", bf16 ? "bf16" : "fp16", bf16 ? "bf16" : "fp16");
  if (r.find("bf16")) return r.set("run.precision", "float32", "bf16");
  const bool differ = r.find("dtype") && r.find("torch_dtype") && *r.find("dtype") != *r.find("torch_dtype");
  if (differ) r.refuse("dtype", "differs from torch_dtype. Keep one");
  const char* key = r.find("dtype") ? "dtype" : "torch_dtype";
  const Json dtype = convert_key(r, key, to_precision);  // of the weights, which are always float32 in Keel
  if (dtype == "float32" || dtype.is_discarded()) return;
  r.set("run.precision", dtype, key);
  r.remark(key + std::string(": Keel keeps the optimizer's weights in float32"));
}

void trl_adapter(Import& r) {
  const bool peft = r.is_true("use_peft"),
             config = r.find("LoraConfig") != nullptr || (!peft && r.find("r") != nullptr);
  if (r.find("use_peft") && !peft && config)
    r.refuse("use_peft", "is false, but the recipe has a LoraConfig. Remove one of them");
  if (!peft && !config) {
    for (const char* key :
         {"lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "target_modules", "use_rslora"})
      if (r.find(key) && !r.find("use_peft"))
        r.refuse(key, "TRL ignores it without use_peft. Set use_peft=true, or remove it");
    return;
  }
  // Sets the target from `other`, else from `key`, else from PEFT's default.
  const auto set = [&](const char* target, const char* key, const char* other, const Json& peft_default) {
    const char* name = r.find(other) ? other : key;
    if (config && !r.find(name))
      r.set(target, peft_default, "LoraConfig", std::string("PEFT's default of ") + key);
    else
      r.set(target, r.value(name), name);
  };
  if (r.user_sets("lora.adapter")) return;
  if (r.value("r") == 0 || r.value("lora_r") == 0)
    r.refuse(r.value("r") == 0 ? "r" : "lora_r", "is 0, expected at least 1");
  set("lora.rank", config ? "r" : "lora_r", config ? "lora_r" : "r", 8);
  set("lora.alpha", "lora_alpha", "lora_alpha", 8);
  if (!r.is_true("disable_dropout")) set("lora.dropout", "lora_dropout", "lora_dropout", 0);
  const char* layers = r.find("lora_target_modules") ? "lora_target_modules" : "target_modules";
  const bool by_default = !r.find(layers);
  r.set("lora.target_modules", by_default ? Json({"q_proj", "v_proj"}) : to_target_modules(r.value(layers)), layers,
        by_default ? "PEFT's default" : "");
  if (r.is_true("use_rslora")) r.set("lora.rank_stabilized", true, "use_rslora");
}

// GRPO --------------------------------------------------------------------------------------------------------------

/// As GRPOConfig.__post_init__: a rollout batch has steps_per_generation device batches, an update has
/// gradient_accumulation_steps of them.
void grpo_sizes(Import& r) {
  const std::string batch = "generation_batch_size", parts = "steps_per_generation";
  const auto number = [](int64_t value) { return std::to_string(value); };
  const int64_t device = device_batch(r), accumulation = r.count("gradient_accumulation_steps");
  const std::string key = r.find(batch) ? batch : r.find(parts) ? parts : "per_device_train_batch_size";
  const int64_t steps = r.find(parts) ? r.count(parts) : r.find(batch) ? r.count(batch) / device : accumulation;
  const int64_t sampled = steps * device, samples = keel_count(r, "rollout.samples_per_prompt");
  if (r.find(batch) && r.find(parts) && r.count(batch) != sampled)
    return r.refuse(batch, parts + " gives " + number(sampled) + ". Keep one of the two, or set num_processes");
  if (r.find(batch) && r.count(batch) % device != 0)
    return r.refuse(batch, "got " + r.text(batch) + ", expected a multiple of per_device_train_batch_size x " +
                               "num_processes, " + number(device));
  if (steps % accumulation != 0)
    return r.refuse("gradient_accumulation_steps", "is " + number(accumulation) + ", expected a divisor of the " +
                                                       number(steps) + " device batches of a rollout batch");
  if (!r.user_sets(kPrompts) && sampled % samples != 0)
    return r.refuse(key, "the batch has " + number(sampled) + " completions, expected a multiple of num_generations, " +
                             number(samples));
  r.set(kPrompts, sampled / samples, key,
        "per_device_train_batch_size x num_processes x steps_per_generation / num_generations");
  r.set(kUpdate, accumulation * device, "gradient_accumulation_steps",
        "per_device_train_batch_size x num_processes x gradient_accumulation_steps");
  if (steps > accumulation) r.set("train.shuffle", "rollouts", key, "TRL forms updates from single completions");
  remark_processes(r);
}

void grpo_length(Import& r) {
  const Phase phase{"optimizer", "train", "eval.every", updates_per_step(r)};
  set_schedule(r, phase);
  set_length(r, phase);
  const bool evaluates = set_intervals(r, phase);
  const char* samples = r.find("num_generations_eval") ? "num_generations_eval" : "num_generations";
  if (evaluates || r.find("num_generations_eval")) r.set("eval.samples", r.value(samples), samples);
  for (const std::string key : {"temperature", "top_p", "top_k"})
    if (r.find(key)) r.set("eval." + key, negative_to_zero(r.value(key)), key);
  const char *best = "load_best_model_at_end", *metric = "metric_for_best_model";
  std::string name = r.text(metric);
  if (name.starts_with("eval_")) name.erase(0, 5);
  if (r.is_true(best))
    r.set("checkpoint.best_metric",
          name.empty()                ? "auto"
          : name.starts_with("eval/") ? name
                                      : "eval/" + name,
          name.empty() ? best : metric);
  if (evaluates && !r.user_sets("data.eval_files") && !r.user_sets("data.held_out"))
    r.remark(
        "eval_strategy: TRL evaluates on the test split. Keel evaluates only with data.eval_files or "
        "data.held_out");
}

void grpo_loss(Import& r) {
  if (r.user_sets("objective.method"))
    return r.remark("objective.method is set next to the recipe, so loss_type and its bounds are not used");
  const std::string name = r.text("loss_type"), level_key = "importance_sampling_level";
  const std::string method = translate(r, "loss_type",  // TRL's name=Keel's
                                       "grpo=grpo bnpo=ppo dr_grpo=dr_grpo dapo=dapo luspo=ppo cispo=cispo sapo=sapo "
                                       "vespo=vespo"),
                    level = translate(r, level_key, "token=token sequence=sequence");
  if (method.empty()) return;
  const bool clipped = name != "cispo" && name != "sapo" && name != "vespo", by_sequence = level == "sequence";
  const std::string average = look_up(
      "grpo=seq_mean_token_mean sapo=seq_mean_token_mean dr_grpo=seq_mean_token_sum_norm luspo=seq_mean_token_sum "
      "bnpo=token_mean dapo=token_mean cispo=token_mean vespo=token_mean",
      name);
  if (by_sequence && !clipped) r.refuse(level_key, "sequence with loss_type " + name + " is not a method of Keel");
  r.set("objective.method", by_sequence ? "gspo" : method, by_sequence ? level_key : "loss_type");
  r.set("objective.aggregation", average, "loss_type");

  Json parameters = Json::array();
  std::istringstream rows(  // loss:key=parameter
      "clipped:epsilon= clipped:delta=dual sapo:sapo_temperature_pos=tau_positive "
      "sapo:sapo_temperature_neg=tau_negative vespo:vespo_k_pos=k_positive vespo:vespo_lambda_pos=lambda_positive "
      "vespo:vespo_k_neg=k_negative vespo:vespo_lambda_neg=lambda_negative");
  for (std::string row; rows >> row;) {
    const size_t colon = row.find(':'), equals = row.find('=');
    const std::string loss = row.substr(0, colon), key = row.substr(colon + 1, equals - colon - 1),
                      parameter = row.substr(equals + 1);
    const Json *value = r.find(key), *default_value = trl_grpo_table().default_of(key);
    const bool is_used = loss == (clipped ? "clipped" : name);
    if (is_used && !parameter.empty() && !r.value(key).is_null() && std::isfinite(r.number(key)))
      parameters.push_back(parameter + "=" + r.value(key).dump());
    else if (!is_used && value != nullptr && (default_value == nullptr || *default_value != *value))
      r.refuse(key, "the loss " + name + " does not use it. Remove it");
  }
  const char* high = r.find("epsilon_high") ? "epsilon_high" : "epsilon";
  if (clipped) {
    r.set("objective.delta_low", r.number("epsilon"), "epsilon");
    r.set("objective.delta_high", r.number(high), high);
    if (r.find("delta") && r.number("delta") <= 1 + r.number(high))
      r.refuse("delta", "got " + r.text("delta") + ", expected above 1 + epsilon_high (dual clip)");
  } else if (name == "cispo" && (!r.find("epsilon_high") || r.number("epsilon_high") <= 1)) {
    r.refuse("epsilon_high", "it is the cap of the ratio in TRL's cispo. Fix: set a cap above 1, such as 5");
  } else if (name == "cispo") {
    r.set("objective.delta_high", r.number("epsilon_high") - 1, "epsilon_high", "minus 1");
    parameters.push_back("low=null");
  } else if (r.find("epsilon_high")) {
    r.refuse("epsilon_high", "the loss " + name + " does not use it. Remove it");
  }
  if (!parameters.empty()) r.set("objective.parameters", parameters, clipped ? "delta" : "loss_type");

  if (!r.find("loss_type") || !r.find("beta"))
    r.remark("defaults are of TRL 1.16; loss_type was bnpo before 0.22, grpo before 0.17; beta was 0.04 before 0.19");
  const bool by_tokens = average == "token_mean";
  if (by_tokens && (updates_per_step(r) > 1 || (name == "bnpo" && r.value("gradient_accumulation_steps") != 1)))
    r.remark("loss_type: TRL averages over micro-batches or rollout batches, Keel over all tokens of an update");
  if (!by_tokens && r.value("entropy_coef") != 0)
    r.remark("entropy_coef: TRL averages the entropy over all tokens, Keel like the loss (objective.aggregation)");
  if (!by_tokens && r.is_true("mask_truncated_completions"))
    r.remark("mask_truncated_completions: TRL divides by all completions, Keel by those that are not truncated");
}

void grpo_advantage(Import& r) {
  const bool is_gdpo = r.value("multi_objective_aggregation") == "normalize_then_sum";
  const std::string key = is_gdpo ? "multi_objective_aggregation" : "scale_rewards";
  const auto name = translate(r, key, "group=grpo true=grpo none=group_mean false=group_mean normalize_then_sum=gdpo");
  if (!name.empty()) r.set("objective.advantage", name, key);
  if ((name == "grpo" || is_gdpo) && !r.user_sets("objective.advantage"))
    r.set("objective.advantage_eps", 1e-4, key, "TRL adds it to the standard deviation");
}

void grpo_rewards(Import& r) {
  if (r.find("reward_weights")) r.set("reward.weights", to_list(r.value("reward_weights")), "reward_weights");
  if (r.user_sets("reward.functions")) return;
  if (!r.find("reward_funcs"))
    return r.remark("reward_funcs is missing: Keel scores every row with math; set reward.functions for others");
  Json functions = Json::array();
  const Json names = to_list(r.value("reward_funcs"));
  for (const Json& entry : names) {
    std::string name = as_text(entry);
    const size_t dot = name.find_last_of('.');
    if (name == "accuracy_reward" || name == "reasoning_accuracy_reward" || name == "accuracy") {
      functions.push_back("math");
      r.remark("reward_funcs: " + name + " gives 0 for answers without \\boxed{} or LaTeX, Keel's math reads any");
      if (name == "reasoning_accuracy_reward")
        r.remark("reward_funcs: " + name + " reads only the text after </think>, Keel's math the whole completion");
    } else if (name == "think_format_reward" || name == "format") {
      functions.push_back(name == "format" ? "tags:think,answer" : "tags:think,*");
    } else if (dot != std::string::npos && name.find(':') == std::string::npos && !name.ends_with(".py")) {
      std::replace(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(dot), '.', '/');
      functions.push_back("python:" + name.substr(0, dot) + ".py:" + name.substr(dot + 1));
    } else {
      return r.refuse("reward_funcs", "got " + name + ". Fix: add reward.functions='[\"python:FILE.py:FUNCTION\"]'");
    }
  }
  r.set("reward.functions", functions, "reward_funcs");
}

void grpo_remarks(Import& r) {
  if (r.setting("reference.kl_coefficient") != 0 && r.is_true("use_bias_correction_kl"))
    r.remark("use_bias_correction_kl: TRL also multiplies each token's KL by its ratio, Keel does not");
  if (!r.is_set("checkpoint.keep"))
    r.remark("save_total_limit: TRL keeps all checkpoints, Keel checkpoint.keep of them");
  if (r.find("max_prompt_length"))
    r.remark("max_prompt_length: TRL truncates longer prompts, Keel skips and counts them");
  if (r.is_set("train.data_epochs"))
    r.remark("num_train_epochs: TRL drops the incomplete last batch of an epoch, Keel joins the epochs");
  if (!r.is_set("data.files") && !r.user_sets("task.name"))
    r.refuse("dataset_name", "is missing. Fix: add dataset_name=FILE or data.files='[FILE]'");
}

// SFT ---------------------------------------------------------------------------------------------------------------

void sft_sizes(Import& r) {
  const int64_t rows = device_batch(r) * r.count("gradient_accumulation_steps");
  if (!r.is_true("packing")) {
    r.set("sft.batch", rows, "per_device_train_batch_size",
          "per_device_train_batch_size x num_processes x gradient_accumulation_steps");
    return remark_processes(r);
  }
  if (!r.user_sets("sft.batch"))
    r.refuse("packing",
             "TRL's update has " + std::to_string(rows) + " blocks of max_length tokens. Fix: add sft.batch=N (rows)");
  r.remark("packing: TRL's update has " + std::to_string(rows) + " blocks, Keel's has sft.batch rows");
}

void sft_length(Import& r) {
  const Phase phase{"sft", "sft", "sft.eval_every", 1};
  set_schedule(r, phase);
  set_length(r, phase);
  if (set_intervals(r, phase) && !r.is_set("sft.eval_files") && !r.is_set("sft.held_out"))
    r.remark("eval_strategy: TRL measures the loss on the test split. Set sft.eval_files or sft.held_out");
  r.set("train.steps", 0, "SFTConfig", "there is no RL");
}

void sft_loss(Import& r) {
  const bool assistant = r.is_true("assistant_only_loss"), whole = r.value("completion_only_loss") == false;
  r.is_true("completion_only_loss");  // throws unless it is a boolean
  if (assistant && whole) r.refuse("assistant_only_loss", "is true, but completion_only_loss is false. Keep one");
  const char* loss_on = assistant ? "assistant" : whole ? "all" : "completion";
  r.set("sft.loss_on", loss_on, whole ? "completion_only_loss" : "assistant_only_loss");
  r.remark(assistant
               ? "assistant_only_loss: TRL trains on {% generation %} marks, Keel on what the template adds after the "
                 "prompt, up to the token that ends the turn"
               : "assistant_only_loss is false: all tokens of conversations and texts are trained on "
                 "(sft.loss_on=assistant: only those of the assistant)");
}

void sft_rows(Import& r) {
  const std::string key = "dataset_text_field", column = r.text(key);
  if (column != "text" && !column.empty()) r.set("sft.text_key", column, key);
  if (!r.is_set("sft.text_key")) r.remark(key + ": for rows with only a column text, add sft.text_key=text");
  if (!r.is_set("sft.files")) r.refuse("dataset_name", "is missing. Fix: add dataset_name=FILE or sft.files='[FILE]'");
  if (!r.value("max_length").is_null() && !r.user_sets("sft.max_tokens"))
    r.remark("max_length: TRL truncates longer rows, Keel skips and counts them");
}

void add_trainer_rules(KeyTable& t) {
  t.computes("bf16 fp16 dtype torch_dtype", "run.precision", trl_precision);
  t.computes(
      "use_peft LoraConfig r lora_r lora_alpha lora_dropout lora_target_modules target_modules use_rslora "
      "disable_dropout",
      "section lora", trl_adapter);
  t.computes("report_to", "record.tensorboard", [](Import& r) { set_trackers(r, "report_to"); });
}

}  // namespace

void add_grpo_rules(KeyTable& t) {
  add_trainer_rules(t);
  t.computes(
      "per_device_train_batch_size gradient_accumulation_steps num_processes generation_batch_size "
      "steps_per_generation",
      "train.prompts_per_step, train.sequences_per_update, train.shuffle", grpo_sizes);
  t.computes(
      "max_steps num_train_epochs lr_scheduler_type warmup_steps warmup_ratio lr_scheduler_kwargs.{min_lr "
      "min_lr_rate} save_steps save_strategy eval_steps eval_strategy evaluation_strategy logging_steps "
      "num_generations_eval load_best_model_at_end metric_for_best_model",
      "train.steps, train.data_epochs, optimizer.*, checkpoint.every, checkpoint.best_metric, eval.*", grpo_length);
  t.computes(
      "loss_type importance_sampling_level epsilon epsilon_high delta sapo_temperature_pos sapo_temperature_neg "
      "vespo_k_pos vespo_lambda_pos vespo_k_neg vespo_lambda_neg",
      "objective.method, objective.aggregation, objective.delta_low, objective.delta_high, objective.parameters",
      grpo_loss);
  t.computes("scale_rewards multi_objective_aggregation", "objective.advantage", grpo_advantage);
  t.computes("reward_funcs reward_weights", "reward.functions, reward.weights", grpo_rewards);
  t.computes("use_bias_correction_kl GRPOConfig", "nothing", grpo_remarks);
}

void add_sft_rules(KeyTable& t) {
  add_trainer_rules(t);
  t.computes("per_device_train_batch_size gradient_accumulation_steps num_processes packing", "sft.batch", sft_sizes);
  t.computes(
      "max_steps num_train_epochs lr_scheduler_type warmup_steps warmup_ratio lr_scheduler_kwargs.{min_lr "
      "min_lr_rate} save_steps save_strategy eval_steps eval_strategy evaluation_strategy logging_steps SFTConfig",
      "sft.steps, sft.data_epochs, sft.*, checkpoint.every", sft_length);
  t.computes("assistant_only_loss completion_only_loss", "sft.loss_on", sft_loss);
  t.computes("dataset_text_field", "sft.text_key", sft_rows);
}

}  // namespace keel::compat
