#include <algorithm>
#include <cmath>
#include <sstream>

#include "keel/compat/conversions.h"
#include "keel/compat/import.h"

namespace keel::compat {
namespace {

/// The setting of ours that a supervised run and RL keep in different sections.
struct Phase {
  std::string optimizer, length, every;
  int64_t updates_per_step;  // TRL counts updates, Keel counts rollout batches
};

/// Updates as steps, rounded up; a number below 1 is a share of max_steps.
int64_t steps_of(const Import& r, const std::string& key, const Phase& phase) {
  const double number = r.number(key);
  const Json all = r.value("max_steps");
  double updates = number;
  if (number > 0 && number < 1 && all.is_number() && all > 0) updates = std::ceil(number * all.get<double>());
  if (updates < 1 || updates != std::floor(updates) || updates > 1e15)
    r.fail_at(key, "expected a number of updates, or a share next to max_steps");
  return static_cast<int64_t>(std::ceil(updates / static_cast<double>(phase.updates_per_step)));
}

void set_schedule(Import& r, const Phase& phase) {
  const std::string type = r.word("lr_scheduler_type"), floor = phase.optimizer + ".min_lr_ratio";
  r.set(phase.optimizer + ".schedule", converted(r, "lr_scheduler_type", schedule_word), "lr_scheduler_type");
  const Json rate = r.value("lr_scheduler_kwargs.min_lr_rate"), lowest = r.value("lr_scheduler_kwargs.min_lr");
  const Json lr = r.ours(phase.optimizer + ".lr");
  if (!rate.is_null()) r.set(floor, rate, "lr_scheduler_kwargs.min_lr_rate");
  if (lowest.is_number() && lr.is_number() && (lr <= 0 || lowest > lr))
    r.refuse("lr_scheduler_kwargs.min_lr",
             "got " + lowest.dump() + ", expected at most the learning rate, " + lr.dump());
  else if (lowest.is_number() && lr.is_number())
    r.set(floor, lowest.get<double>() / lr.get<double>(), "lr_scheduler_kwargs.min_lr", "divided by the learning rate");
  if (type == "cosine_with_min_lr" && !r.is_set(floor))
    r.refuse("lr_scheduler_type", "cosine_with_min_lr has no end. Fix: set lr_scheduler_kwargs.min_lr_rate");
  if (type == "constant") return;  // transformers' constant has no warm-up
  const Json steps = r.value("warmup_steps"), ratio = r.value("warmup_ratio");
  if (steps.is_number() && steps > 0)
    r.set(phase.optimizer + ".warmup_updates", steps >= 1 ? Json(std::floor(steps.get<double>())) : steps,
          "warmup_steps");
  else if (!ratio.is_null())
    set_warmup_share(r, phase.optimizer + ".warmup_updates", "warmup_ratio");
}

void set_length(Import& r, const Phase& phase) {
  const Json steps = r.value("max_steps");
  if (r.is_own(phase.length + ".steps") || r.is_own(phase.length + ".data_epochs")) return;
  if (steps.is_null() || (steps.is_number() && steps <= 0))
    return r.set(phase.length + ".data_epochs", r.value("num_train_epochs"), "num_train_epochs");
  const int64_t count = steps.is_number_integer() ? steps.get<int64_t>() : 0, updates = phase.updates_per_step;
  if (count == 0 || count % updates != 0)
    return r.refuse("max_steps", "got " + steps.dump() + " updates, expected a multiple of " + std::to_string(updates) +
                                     ", the updates of a rollout batch. Fix: set max_steps to one");
  r.set(phase.length + ".steps", count / updates, "max_steps", updates > 1 ? "by the updates of a rollout batch" : "");
}

/// Intervals of saving and of evaluating. Returns whether TRL evaluates.
bool set_intervals(Import& r, const Phase& phase) {
  const std::string rounded = phase.updates_per_step > 1 ? "updates, as rollout batches, rounded up" : "";
  const auto check = [&](const char* key) {
    static const std::vector<std::string> kWords = {"", "no", "false", "steps", "epoch", "best"};
    if (std::ranges::count(kWords, r.word(key)) == 0)
      r.refuse(key, "got " + r.word(key) + ", expected no, steps or epoch");
    if (r.word(key) == "epoch" || r.word(key) == "best")
      r.remark(key + std::string(": passes are not counted; checkpoint.every and ") + phase.every + " count steps");
  };
  const char* strategy = r.given("eval_strategy") ? "eval_strategy" : "evaluation_strategy";
  check("save_strategy");
  check(strategy);
  const std::string save = r.word("save_strategy"), evaluate = r.word(strategy);
  if (save == "no" || save == "false")
    r.set("checkpoint.every", 0, "save_strategy");
  else if (r.given("save_steps") && (save.empty() || save == "steps"))
    r.set("checkpoint.every", steps_of(r, "save_steps", phase), "save_steps", rounded);
  const char* interval = r.given("eval_steps") ? "eval_steps" : "logging_steps";
  if (evaluate == "steps") r.set(phase.every, steps_of(r, interval, phase), interval, rounded);
  return !evaluate.empty() && evaluate != "no" && evaluate != "false";
}

/// Completions, or rows, of one device step on all devices.
int64_t at_once(const Import& r) { return r.count("per_device_train_batch_size") * r.count("num_processes"); }

void remark_processes(Import& r) {
  if (!r.given("num_processes"))
    r.remark("num_processes is taken as 1: for a recipe that is started on N GPUs, add num_processes=N");
}

constexpr const char* kPrompts = "train.prompts_per_step";
constexpr const char* kUpdate = "train.sequences_per_update";

/// Updates of a rollout batch, as the trainer counts them.
int64_t updates_per_step(const Import& r) {
  const int64_t all = count_of(r, kPrompts) * count_of(r, "rollout.samples_per_prompt"), update = count_of(r, kUpdate);
  return count_of(r, "train.epochs") * (all % update == 0 ? all / update : 1);
}

void trl_precision(Import& r) {
  const bool bf16 = r.is_true("bf16"), fp16 = r.is_true("fp16");
  if (bf16 && fp16) r.refuse("bf16", "fp16 is true as well. Keep one");
  if (bf16 || fp16) return r.set("run.precision", bf16 ? "bf16" : "fp16", bf16 ? "bf16" : "fp16");
  if (r.given("bf16")) return r.set("run.precision", "float32", "bf16");
  const bool differ = r.given("dtype") && r.given("torch_dtype") && *r.given("dtype") != *r.given("torch_dtype");
  if (differ) r.refuse("dtype", "differs from torch_dtype. Keep one");
  const char* key = r.given("dtype") ? "dtype" : "torch_dtype";
  const Json word = converted(r, key, precision_name);  // of the weights, which are float32 here anyway
  if (word == "float32" || word.is_discarded()) return;
  r.set("run.precision", word, key);
  r.remark(key + std::string(": the optimizer's weights are float32 here"));
}

void trl_adapter(Import& r) {
  const bool peft = r.is_true("use_peft"),
             config = r.given("LoraConfig") != nullptr || (!peft && r.given("r") != nullptr);
  if (r.given("use_peft") && !peft && config)
    r.refuse("use_peft", "is false, but there is a LoraConfig. Remove one of the two");
  if (!peft && !config) {
    for (const char* key :
         {"lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "target_modules", "use_rslora"})
      if (r.given(key) && !r.given("use_peft"))
        r.refuse(key, "TRL reads it only with use_peft, whose default is false. Set use_peft=true, or remove it");
    return;
  }
  const auto set = [&](const char* target, const char* key, const char* other, const Json& of_peft) {
    const char* name = r.given(other) ? other : key;
    if (config && !r.given(name))
      r.set(target, of_peft, "LoraConfig", std::string("PEFT's default of ") + key);
    else
      r.set(target, r.value(name), name);
  };
  if (r.is_own("lora.adapter")) return;
  if (r.value("r") == 0 || r.value("lora_r") == 0)
    r.refuse(r.value("r") == 0 ? "r" : "lora_r", "is 0, expected at least 1");
  set("lora.rank", config ? "r" : "lora_r", config ? "lora_r" : "r", 8);
  set("lora.alpha", "lora_alpha", "lora_alpha", 8);
  if (!r.is_true("disable_dropout")) set("lora.dropout", "lora_dropout", "lora_dropout", 0);
  const char* layers = r.given("lora_target_modules") ? "lora_target_modules" : "target_modules";
  const bool by_default = !r.given(layers);
  r.set("lora.target_modules", by_default ? Json({"q_proj", "v_proj"}) : adapter_layers(r.value(layers)), layers,
        by_default ? "PEFT's default" : "");
  if (r.is_true("use_rslora")) r.set("lora.rank_stabilized", true, "use_rslora");
}

// GRPO --------------------------------------------------------------------------------------------------------------

/// GRPOConfig.__post_init__: steps_per_generation device batches are sampled at once; gradient_accumulation_steps of
/// them make an update.
void grpo_sizes(Import& r) {
  const std::string batch = "generation_batch_size", parts = "steps_per_generation";
  const auto number = [](int64_t value) { return std::to_string(value); };
  const int64_t device = at_once(r), accumulation = r.count("gradient_accumulation_steps");
  const std::string key = r.given(batch) ? batch : r.given(parts) ? parts : "per_device_train_batch_size";
  const int64_t steps = r.given(parts) ? r.count(parts) : r.given(batch) ? r.count(batch) / device : accumulation;
  const int64_t sampled = steps * device, samples = count_of(r, "rollout.samples_per_prompt");
  if (r.given(batch) && r.given(parts) && r.count(batch) != sampled)
    return r.refuse(batch, parts + " gives " + number(sampled) + ". Keep one of the two, or set num_processes");
  if (r.given(batch) && r.count(batch) % device != 0)
    return r.refuse(batch, "got " + r.word(batch) + ", expected a multiple of per_device_train_batch_size x " +
                               "num_processes, " + number(device));
  if (steps % accumulation != 0)
    return r.refuse("gradient_accumulation_steps", "is " + number(accumulation) + ", expected a divisor of the " +
                                                       number(steps) + " batches that are sampled at once");
  if (!r.is_own(kPrompts) && sampled % samples != 0)
    return r.refuse(key, "the batch has " + number(sampled) + " completions, expected a multiple of num_generations, " +
                             number(samples));
  r.set(kPrompts, sampled / samples, key,
        "per_device_train_batch_size x num_processes x steps_per_generation / num_generations");
  r.set(kUpdate, accumulation * device, "gradient_accumulation_steps",
        "per_device_train_batch_size x num_processes x gradient_accumulation_steps");
  if (steps > accumulation) r.set("train.shuffle", "rollouts", key, "TRL draws updates from single completions");
  remark_processes(r);
}

void grpo_length(Import& r) {
  const Phase phase{"optimizer", "train", "eval.every", updates_per_step(r)};
  set_schedule(r, phase);
  set_length(r, phase);
  const bool evaluates = set_intervals(r, phase);
  const char* samples = r.given("num_generations_eval") ? "num_generations_eval" : "num_generations";
  if (evaluates || r.given("num_generations_eval")) r.set("eval.samples", r.value(samples), samples);
  if (r.given("temperature")) r.set("eval.temperature", r.value("temperature"), "temperature");
  const char *best = "load_best_model_at_end", *metric = "metric_for_best_model";
  std::string name = r.word(metric);
  if (name.starts_with("eval_")) name.erase(0, 5);
  if (r.is_true(best))
    r.set("checkpoint.best_metric",
          name.empty()                ? "auto"
          : name.starts_with("eval/") ? name
                                      : "eval/" + name,
          name.empty() ? best : metric);
  if (evaluates && !r.is_own("data.eval_files") && !r.is_own("data.held_out"))
    r.remark(
        "eval_strategy: TRL evaluates on the test split. Here nothing is evaluated without data.eval_files or "
        "data.held_out");
}

void grpo_loss(Import& r) {
  if (r.is_own("objective.method"))
    return r.remark("objective.method is set next to the recipe: loss_type and its bounds are not used");
  const std::string name = r.word("loss_type"), level_key = "importance_sampling_level";
  const std::string method = translated(r, "loss_type",
                                        "grpo=grpo bnpo=ppo dr_grpo=dr_grpo dapo=dapo luspo=ppo cispo=cispo sapo=sapo "
                                        "vespo=vespo"),
                    level = translated(r, level_key, "token=token sequence=sequence");
  if (method.empty()) return;
  const bool clipped = name != "cispo" && name != "sapo" && name != "vespo", by_sequence = level == "sequence";
  const std::string average = one_of(
      "grpo=seq_mean_token_mean sapo=seq_mean_token_mean dr_grpo=seq_mean_token_sum_norm luspo=seq_mean_token_sum "
      "bnpo=token_mean dapo=token_mean cispo=token_mean vespo=token_mean",
      name);
  if (by_sequence && !clipped) r.refuse(level_key, "sequence with loss_type " + name + " is not a method of Keel");
  r.set("objective.method", by_sequence ? "gspo" : method, by_sequence ? level_key : "loss_type");
  r.set("objective.aggregation", average, "loss_type");

  Json parameters = Json::array();
  std::istringstream rows(  // the loss that reads a key, and our parameter
      "clipped:epsilon= clipped:delta=dual sapo:sapo_temperature_pos=tau_positive "
      "sapo:sapo_temperature_neg=tau_negative vespo:vespo_k_pos=k_positive vespo:vespo_lambda_pos=lambda_positive "
      "vespo:vespo_k_neg=k_negative vespo:vespo_lambda_neg=lambda_negative");
  for (std::string row; rows >> row;) {
    const size_t colon = row.find(':'), equals = row.find('=');
    const std::string reader = row.substr(0, colon), key = row.substr(colon + 1, equals - colon - 1),
                      ours = row.substr(equals + 1);
    const Json *theirs = r.given(key), *by_default = trl_grpo_table().default_of(key);
    const bool reads = reader == (clipped ? "clipped" : name);
    if (reads && !ours.empty() && !r.value(key).is_null() && std::isfinite(r.number(key)))
      parameters.push_back(ours + "=" + r.value(key).dump());
    else if (!reads && theirs != nullptr && (by_default == nullptr || *by_default != *theirs))
      r.refuse(key, "the loss " + name + " never reads it. Remove it");
  }
  const char* high = r.given("epsilon_high") ? "epsilon_high" : "epsilon";
  if (clipped) {
    r.set("objective.delta_low", r.number("epsilon"), "epsilon");
    r.set("objective.delta_high", r.number(high), high);
    if (r.given("delta") && r.number("delta") <= 1 + r.number(high))
      r.refuse("delta", "got " + r.word("delta") + ", expected above 1 + epsilon_high, where it is a dual clip");
  } else if (name == "cispo" && (!r.given("epsilon_high") || r.number("epsilon_high") <= 1)) {
    r.refuse("epsilon_high", "TRL's cispo caps the ratio itself at it. Fix: set a cap above 1, for instance 5");
  } else if (name == "cispo") {
    r.set("objective.delta_high", r.number("epsilon_high") - 1, "epsilon_high", "less 1");
    parameters.push_back("low=null");
  } else if (r.given("epsilon_high")) {
    r.refuse("epsilon_high", "the loss " + name + " never reads it. Remove it");
  }
  if (!parameters.empty()) r.set("objective.parameters", parameters, clipped ? "delta" : "loss_type");

  if (!r.given("loss_type") || !r.given("beta"))
    r.remark("defaults are of TRL 1.16; loss_type was bnpo before 0.22, grpo before 0.17; beta was 0.04 before 0.19");
  const bool by_tokens = average == "token_mean";
  if (by_tokens && (updates_per_step(r) > 1 || (name == "bnpo" && r.value("gradient_accumulation_steps") != 1)))
    r.remark("loss_type: TRL averages tokens of micro-batches or of a batch's updates, Keel of all of an update");
  if (!by_tokens && r.value("entropy_coef") != 0)
    r.remark("entropy_coef: TRL averages the entropy over all tokens, Keel as the loss (objective.aggregation)");
  if (!by_tokens && r.is_true("mask_truncated_completions"))
    r.remark("mask_truncated_completions: TRL divides by all completions, Keel by those that are not truncated");
}

void grpo_advantage(Import& r) {
  const std::string advantage = translated(r, "scale_rewards", "group=grpo true=grpo none=group_mean false=group_mean");
  if (advantage.empty()) return;
  r.set("objective.advantage", advantage, "scale_rewards");
  if (advantage == "grpo" && !r.is_own("objective.advantage"))
    r.set("objective.advantage_eps", 1e-4, "scale_rewards", "which TRL adds to the standard deviation");
}

void grpo_rewards(Import& r) {
  if (r.given("reward_weights")) r.set("reward.weights", list_of_one(r.value("reward_weights")), "reward_weights");
  if (r.is_own("reward.functions")) return;
  if (!r.given("reward_funcs"))
    return r.remark("reward_funcs is absent: Keel scores every row by math (reward.functions chooses another)");
  Json functions = Json::array();
  const Json names = list_of_one(r.value("reward_funcs"));
  for (const Json& entry : names) {
    std::string name = word_of(entry);
    const size_t dot = name.find_last_of('.');
    if (name == "accuracy_reward" || name == "reasoning_accuracy_reward" || name == "accuracy") {
      functions.push_back("math");
      r.remark("reward_funcs: " + name + " gives 0 for an answer outside of \\boxed{} or LaTeX, Keel's math reads any");
      if (name == "reasoning_accuracy_reward")
        r.remark("reward_funcs: " + name + " reads only what follows </think>, Keel's math the whole completion");
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
  if (r.ours("reference.kl_coefficient") != 0 && r.is_true("use_bias_correction_kl"))
    r.remark("use_bias_correction_kl: TRL also multiplies each token's KL by its ratio, Keel does not");
  if (!r.is_set("checkpoint.keep"))
    r.remark("save_total_limit: TRL keeps all checkpoints, Keel checkpoint.keep of them");
  if (r.given("max_prompt_length"))
    r.remark("max_prompt_length: TRL cuts longer prompts, Keel leaves them out and counts them");
  if (r.is_set("train.data_epochs"))
    r.remark("num_train_epochs: TRL leaves out the rows of a pass that do not fill a batch, Keel joins the passes");
  if (!r.is_set("data.files") && !r.is_own("task.name"))
    r.refuse("dataset_name", "is not in the recipe. Fix: add dataset_name=FILE or data.files='[FILE]'");
}

// SFT ---------------------------------------------------------------------------------------------------------------

void sft_sizes(Import& r) {
  const int64_t rows = at_once(r) * r.count("gradient_accumulation_steps");
  if (!r.is_true("packing")) {
    r.set("sft.batch", rows, "per_device_train_batch_size",
          "per_device_train_batch_size x num_processes x gradient_accumulation_steps");
    return remark_processes(r);
  }
  if (!r.is_own("sft.batch"))
    r.refuse("packing",
             "TRL's update has " + std::to_string(rows) + " blocks of max_length tokens. Fix: add sft.batch=N, rows");
  r.remark("packing: TRL's update has " + std::to_string(rows) + " blocks, here it has sft.batch rows");
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
  r.is_true("completion_only_loss");  // refuses what is not a flag
  if (assistant && whole) r.refuse("assistant_only_loss", "is true, but completion_only_loss is false. Keep one");
  const char* learned = assistant ? "assistant" : whole ? "all" : "completion";
  r.set("sft.loss_on", learned, whole ? "completion_only_loss" : "assistant_only_loss");
  r.remark(assistant ? "assistant_only_loss: TRL learns what is between {% generation %} marks, Keel what the template "
                       "writes after the prompt, up to the token that ends the turn"
                     : "assistant_only_loss is false: of conversations and texts all tokens are learned "
                       "(sft.loss_on=assistant learns the assistant's)");
}

void sft_rows(Import& r) {
  const std::string key = "dataset_text_field", column = r.word(key);
  if (column != "text" && !column.empty()) r.set("sft.text_key", column, key);
  if (!r.is_set("sft.text_key")) r.remark(key + ": for rows with a column text alone, add sft.text_key=text");
  if (!r.is_set("sft.files"))
    r.refuse("dataset_name", "is not in the recipe. Fix: add dataset_name=FILE or sft.files='[FILE]'");
  if (!r.value("max_length").is_null() && !r.is_own("sft.max_tokens"))
    r.remark("max_length: TRL cuts longer rows, Keel leaves them out and counts them");
}

void add_trainer_rules(KeyTable& t) {
  t.computes("bf16 fp16 dtype torch_dtype", "run.precision", trl_precision);
  t.computes(
      "use_peft LoraConfig r lora_r lora_alpha lora_dropout lora_target_modules target_modules use_rslora "
      "disable_dropout",
      "section lora", trl_adapter);
  t.computes("report_to", "record.tensorboard", [](Import& r) { set_tools(r, "report_to"); });
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
  t.computes("scale_rewards", "objective.advantage", grpo_advantage);
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
