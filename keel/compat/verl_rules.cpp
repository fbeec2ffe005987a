#include <algorithm>

#include "keel/compat/conversions.h"
#include "keel/compat/import.h"
#include "keel/core/json_reader.h"

namespace keel::compat {
namespace {

using Pairs = std::map<std::string, std::string>;

const std::string kActor = "actor_rollout_ref.actor.", kOptim = kActor + "optim.", kModel = "actor_rollout_ref.model.",
                  kLossMode = kActor + "policy_loss.loss_mode", kParameters = kActor + "policy_loss.parameters",
                  kAggregation = kActor + "loss_agg_mode", kMiniBatch = kActor + "ppo_mini_batch_size",
                  kEstimator = "algorithm.adv_estimator", kBatch = "data.train_batch_size";

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Adds an error about a value: the problem, the expected value and the fix.
void refuse_value(Import& r, const std::string& key, const char* problem, const std::string& expected,
                  const std::string& fix) {
  r.refuse(key, std::string(problem) + " (got " + r.text(key) + ", expected " + expected + "). Fix: " + fix);
}

/// Returns the key of DAPO's soft penalty if it is enabled, else "". It was in other sections before verl 0.9.
std::string overlong_section(const Import& r) {
  for (const char* section : {"reward_model.overlong_buffer", "reward_model.reward_kwargs.overlong_buffer_cfg",
                              "reward.reward_kwargs.overlong_buffer_cfg"})
    if (r.is_true(std::string(section) + ".enable")) return section;
  return "";
}

void verl_adapter(Import& r) {
  const std::string rank = kModel + "lora_rank";
  if (r.find(rank) == nullptr || *r.find(rank) == 0) return;
  r.set("lora.rank", r.count(rank), rank);
  r.set("lora.alpha", r.value(kModel + "lora_alpha"), kModel + "lora_alpha");
  r.set("lora.target_modules", to_target_modules(r.value(kModel + "target_modules")), kModel + "target_modules");
}

void verl_sizes(Import& r) {
  const int64_t prompts = keel_count(r, "train.prompts_per_step"), update = r.count(kMiniBatch);
  if (!r.user_sets("train.sequences_per_update") && prompts % update != 0)
    refuse_value(r, kMiniBatch, "the prompts of an update do not divide those of a step",
                 "a divisor of " + kBatch + ", " + std::to_string(prompts), "set " + kMiniBatch);
  r.set("train.sequences_per_update", update * keel_count(r, "rollout.samples_per_prompt"), kMiniBatch,
        "times rollout.samples_per_prompt");
}

void verl_length(Import& r) {
  const std::string steps = "trainer.total_training_steps", epochs = "trainer.total_epochs";
  if (r.user_sets("train.steps") || r.user_sets("train.data_epochs")) return;
  if (const Json* count = r.find(steps)) return r.set("train.steps", *count, steps);
  if (!r.is_set("data.files")) return;  // built-in tasks have no epochs
  r.set("train.data_epochs", r.value(epochs), epochs);
  r.remark(epochs + ": verl drops the incomplete last batch of every epoch; Keel joins the epochs");
}

void verl_optimizer(Import& r) {
  const std::string steps = kOptim + "lr_warmup_steps", ratio = kOptim + "lr_warmup_steps_ratio",
                    old_type = kOptim + "warmup_style", clip = kOptim + "clip_grad", old_clip = kActor + "grad_clip",
                    floor = kOptim + "min_lr_ratio",
                    type = r.find(old_type) != nullptr ? old_type : kOptim + "lr_scheduler_type",
                    norm = r.find(old_clip) != nullptr ? old_clip : clip;
  const Json betas = r.value(kOptim + "betas");
  if (!betas.is_array() || betas.size() != 2) return r.refuse(kOptim + "betas", "expected two numbers");
  r.set("optimizer.beta1", betas[0], kOptim + "betas", "the first");
  r.set("optimizer.beta2", betas[1], kOptim + "betas", "the second");

  if (r.find(clip) != nullptr && r.value(norm) != r.value(clip))
    refuse_value(r, norm, "verl 0.9.1 uses clip_grad instead", r.text(clip), "set both to the same norm");
  else
    r.set("optimizer.max_grad_norm", r.value(norm), norm);

  const std::string schedule = translate(r, type, "constant=constant cosine=cosine");
  const bool has_steps = r.find(steps) != nullptr && r.number(steps) > 0,
             by_ratio = r.find(steps) == nullptr || r.number(steps) < 0,  // 0 steps: no warm-up
      has_ratio = by_ratio && r.find(ratio) != nullptr && r.number(ratio) > 0;
  if (!schedule.empty()) r.set("optimizer.schedule", schedule, type);
  if (schedule == "cosine" && r.find(floor) != nullptr) r.set("optimizer.min_lr_ratio", r.value(floor), floor);
  if (has_ratio) set_warmup_fraction(r, "optimizer.warmup_updates", ratio);
  if (has_steps) {
    const int64_t all = keel_count(r, "train.prompts_per_step") * keel_count(r, "rollout.samples_per_prompt"),
                  update =
                      r.setting("train.sequences_per_update") == 0 ? all : keel_count(r, "train.sequences_per_update");
    r.set("optimizer.warmup_updates", r.count(steps) * keel_count(r, "train.epochs") * all / update, steps,
          "times the updates of a step");
  }
  if (schedule == "cosine" || has_steps || has_ratio)
    r.set("optimizer.schedule_per", "step", has_steps ? steps : has_ratio ? ratio : type, "verl updates it per step");
}

void verl_reward(Import& r) {
  for (const std::string section : {"custom_reward_function", "reward.custom_reward_function"}) {
    const std::string path = r.text(section + ".path"), name = r.text(section + ".name");
    if (path.empty()) continue;
    r.set("reward.functions", Json::array({"python:" + path + ":" + (name.empty() ? "compute_score" : name)}),
          section + ".path", "python:PATH:NAME");
    if (const Json* arguments = r.find(section + ".reward_kwargs"); arguments != nullptr && !arguments->empty())
      refuse_value(r, section + ".reward_kwargs", "a function gets only the row and the completion", "no arguments",
                   "define them in the function");
  }
  if (!r.is_set("reward.functions") && r.is_set("data.files"))
    r.remark("reward: verl scores a row by its data_source, Keel with math; set reward.functions for others");

  std::string manager = "reward.reward_manager.name";
  for (const std::string key : {"reward.reward_manager.name", "reward_manager.name", "reward_model.reward_manager"}) {
    const std::string name = r.text(key);
    if (!contains({"", "naive", "dapo"}, name))
      refuse_value(r, key, "the manager is unknown", "naive or dapo", "set reward.functions, and --ignore " + key);
    if (!contains({"", "naive"}, name)) manager = key;
  }
  const std::string section = overlong_section(r), enable = section + ".enable", length = section + ".len";
  if (section.empty()) return;
  if (r.text(manager) != "dapo")
    return refuse_value(r, enable, "verl uses it only with the reward manager dapo", "false",
                        "set " + manager + "=dapo");
  r.set("reward.overlong_buffer", r.count(length), length);
  if (r.find(section + ".penalty_factor") != nullptr)
    r.set("reward.overlong_penalty", r.value(section + ".penalty_factor"), section + ".penalty_factor");
  for (const char* key : {"reward_model.reward_kwargs.max_resp_len", "reward.reward_kwargs.max_resp_len"})
    if (r.find(key) != nullptr && *r.find(key) != r.setting("rollout.max_new_tokens"))
      refuse_value(r, key, "the penalty ends at data.max_response_length", r.setting("rollout.max_new_tokens").dump(),
                   "remove it");
}

void verl_filter(Import& r) {
  const std::string filter = "algorithm.filter_groups.", enable = filter + "enable", metric = filter + "metric",
                    sampled = "data.gen_batch_size", batches = filter + "max_num_gen_batches";
  const int64_t prompts = keel_count(r, "train.prompts_per_step");
  if (!r.is_true(enable)) {
    if (r.find(sampled) != nullptr && *r.find(sampled) != prompts)
      refuse_value(r, sampled, "a step samples as many prompts as it trains on", std::to_string(prompts), "remove it");
    return;
  }
  r.set("rollout.dynamic_sampling", true, enable);
  const int64_t max_batches = r.find(batches) != nullptr && *r.find(batches) != 0 ? r.count(batches) : 0,
                factor = r.find(sampled) != nullptr ? r.count(sampled) / prompts : 1;
  if (r.find(sampled) != nullptr && r.count(sampled) % prompts != 0)
    refuse_value(r, sampled, "Keel samples the prompts of a step", "a multiple of " + std::to_string(prompts),
                 "set it to " + std::to_string(std::max<int64_t>(factor, 1) * prompts));
  if (max_batches > 0)  // of gen_batch_size prompts each
    r.set("rollout.max_batches", max_batches * std::max<int64_t>(factor, 1), batches, "in batches of a step's size");
  r.remark(enable + ": verl 0.9.1 samples until a step is full; after rollout.max_batches batches (" +
           r.setting("rollout.max_batches").dump() + ") Keel trains on the groups found so far");

  // Keel filters by the sum of all reward functions and the length penalty, without KL.
  const std::string name = r.text(metric);
  const Json functions = r.setting("reward.functions");
  const bool is_sum = !overlong_section(r).empty() || functions.size() > 1,
             is_accuracy = functions.empty() || functions == Json::array({"math"}),
             is_same = contains({"reward", "seq_reward"}, name) || (name == "score" && !is_sum) ||
                       (name == "acc" && !is_sum && is_accuracy) ||
                       (name == "seq_final_reward" && r.setting("reference.kl_in_reward") == 0);
  if (!is_same)
    refuse_value(r, metric, "groups are filtered by the total reward without KL", "reward", "set it to reward");
}

void verl_advantage(Import& r) {
  static constexpr const char* kEstimators =
      "gae=gae grpo=grpo grpo_vectorized=grpo rloo=rloo rloo_vectorized=rloo reinforce_plus_plus=reinforce_pp "
      "reinforce_plus_plus_baseline=reinforce_pp_baseline";
  const std::string by_deviation = "algorithm.norm_adv_by_std_in_grpo", method = translate(r, kEstimator, kEstimators);
  const bool is_mean = method == "grpo" && !r.is_true(by_deviation);
  if (!method.empty())
    r.set("objective.advantage", is_mean ? "group_mean" : method, is_mean ? by_deviation : kEstimator);
  if (method == "reinforce_pp" && r.value("algorithm.gamma") != 1)
    refuse_value(r, "algorithm.gamma", "Keel discounts only with a critic", "1",
                 "set it to 1, or choose another estimator");
}

void set_bounds(Import& r, const std::string& mode) {
  const std::string clip = kActor + "clip_ratio", dual = clip + "_c", tau = kActor + "tau_",
                    dro = kActor + "policy_loss.dro_beta";
  const auto assignment = [&](const std::string& name, const std::string& key) {
    return name + "=" + r.value(key).dump();
  };
  const bool is_dppo = mode.starts_with("dppo");
  for (const std::string side : {"low", "high"}) {
    const std::string key = clip + "_" + side;
    const bool is_shared = r.value(key).is_null();
    if (contains({"sapo", "dro", "gpg"}, mode) || r.user_sets("objective.delta")) break;
    if (!is_shared && r.find(key) == nullptr && r.value(clip) != r.value(key))
      refuse_value(r, clip, "verl uses clip_ratio_low and clip_ratio_high instead", r.text(key), "set " + key);
    r.set("objective.delta_" + side, r.value(is_shared ? clip : key), is_shared ? clip : key);
  }
  if (is_dppo) r.set("objective.ratio_cap", r.value(dual).is_null() ? Json("none") : r.value(dual), dual);
  if (mode == "vanilla" && !r.value(dual).is_null())
    r.set("objective.parameters", Json::array({assignment("dual", dual)}), dual, "the dual clip");
  if (mode == "sapo")
    r.set("objective.parameters", {assignment("tau_positive", tau + "pos"), assignment("tau_negative", tau + "neg")},
          tau + "pos");
  if (mode != "dro") return;
  if (r.find(dro) == nullptr) return r.refuse(dro, "the loss dro has no default. Fix: set it");
  r.set("objective.parameters", Json::array({assignment("beta", dro)}), dro);
}

void verl_loss(Import& r) {
  static constexpr const char* kMethods =
      "vanilla=ppo dppo_tv=dppo_tv dppo_kl=dppo_kl gspo=gspo sapo=sapo geo_mean=gmpo cispo=cispo dro=dro gpg=pg";
  static constexpr const char* kModes =
      "token-mean=token_mean seq-mean-token-mean=seq_mean_token_mean seq-mean-token-sum=seq_mean_token_sum "
      "seq-mean-token-sum-norm=seq_mean_token_sum_norm";
  const std::string mode = r.user_sets("objective.method") ? "" : r.text(kLossMode),
                    average = translate(r, kAggregation, kModes);
  if (!r.user_sets("objective.method")) {
    const bool is_plugin = mode.starts_with("keel_");  // Keel's own losses inside verl
    const std::string method = is_plugin ? mode.substr(5) : translate(r, kLossMode, kMethods);
    if (method.empty()) return;
    const bool has_critic = method == "ppo" && r.setting("objective.advantage") == "gae";
    r.set("objective.method", has_critic ? "ppo_gae" : method, kLossMode);
    if (is_plugin)
      r.set("objective.parameters", convert_key(r, kParameters, to_assignments), kParameters, "each as name=value");
    else
      set_bounds(r, mode);
  }
  if (mode == "gspo" && average == "token_mean")
    r.remark(kLossMode + " gspo: verl 0.9.1 averages by loss_agg_mode, verl 0.7.1 to 0.9.0 as seq-mean-token-mean");
  if (mode != "sapo" && mode != "geo_mean") {
    if (!average.empty()) r.set("objective.aggregation", average, kAggregation);
  } else if (average != "seq_mean_token_mean" &&
             (r.is_true(kActor + "use_kl_loss") || r.value(kActor + "entropy_coeff") != 0)) {
    refuse_value(r, kAggregation, "verl averages this loss by all, but its KL and entropy by loss_agg_mode",
                 "seq-mean-token-mean", "set it to seq-mean-token-mean");
  }
}

void verl_kl(Import& r) {
  const std::string in_loss = kActor + "use_kl_loss", in_loss_coef = kActor + "kl_loss_coef",
                    in_reward = "algorithm.use_kl_in_reward", control = "algorithm.kl_ctrl.",
                    coefficient = control + "kl_coef";
  if (r.is_true(in_loss)) r.set("reference.kl_coefficient", r.value(in_loss_coef), in_loss_coef);
  if (!r.is_true(in_reward) || r.value(coefficient) == 0) return;
  r.set("reference.kl_in_reward", r.value(coefficient), coefficient);
  if (translate(r, control + "type", "fixed=fixed adaptive=adaptive") != "adaptive") return;
  r.set("reference.kl_in_reward_target", r.value(control + "target_kl"), control + "target_kl");
  r.set("reference.kl_in_reward_horizon", r.value(control + "horizon"), control + "horizon");
}

void verl_critic(Import& r) {
  static const Json kOptimDefaults = parse_json(
      R"({"weight_decay": 0.01, "betas": [0.9, 0.999], "lr_warmup_steps": -1, "lr_warmup_steps_ratio": 0.0,
          "warmup_style": null, "lr_scheduler_type": "constant", "min_lr_ratio": 0.0, "num_cycles": 0.5,
          "clip_grad": 1.0, "optimizer": "AdamW", "optimizer_impl": "torch.optim", "zero_indexed_step": true, "override_optimizer_config": null})");
  const std::string warmup = "trainer.critic_warmup";
  const auto steps = std::max<int64_t>(static_cast<int64_t>(r.number(warmup)) - 1, 0);
  if (r.setting("objective.advantage") != "gae") {  // verl reads nothing else of it then
    if (steps > 0) refuse_value(r, warmup, "the policy would wait without a critic", "at most 1", "remove it");
    return;
  }
  const std::string critic = "critic.", model = critic + "model.path", average = critic + "loss_agg_mode";
  if (const Json* enabled = r.find("critic.enable"); enabled != nullptr && *enabled == false)
    refuse_value(r, "critic.enable", "gae needs a critic", "true", "remove it, or choose other advantages");
  r.set("critic.body", "separate", kEstimator);
  for (const auto& [key, target] : Pairs{{"critic.optim.lr", "critic.lr"},
                                         {"critic.cliprange_value", "critic.value_clip"},
                                         {"algorithm.gamma", "critic.gamma"},
                                         {"algorithm.lam", "critic.lambda"}})
    r.set(target, r.value(key), key);
  r.set("critic.warmup_steps", steps, warmup, "verl counts steps from 1");

  const auto require = [&](const std::string& key, const Json& policy, const char* reason) {
    if (r.find(key) != nullptr && *r.find(key) != policy) refuse_value(r, key, reason, as_text(policy), "remove it");
  };
  bool follows = false;
  for (const auto& [name, preset] : kOptimDefaults.items()) {
    const Json *of_critic = r.find("critic.optim." + name), *of_policy = r.find(kOptim + name);
    const Json policy = of_policy != nullptr ? *of_policy : preset;
    follows = follows || (policy != preset && (of_critic == nullptr || *of_critic == preset));
    if (of_critic != nullptr && *of_critic != preset)
      require("critic.optim." + name, policy, "critic and policy share all optimizer settings but the learning rate");
  }
  if (follows)
    r.remark("critic.optim: the critic follows the policy's schedule, warm-up and weight decay; verl's has its own");
  for (const char* name : {"ppo_epochs", "ppo_mini_batch_size", "shuffle"})
    require(critic + name, r.value(kActor + name), "the critic is trained in the updates of the policy");
  require(model, r.setting("model.path"), "the critic is initialised from the policy");
  require("critic.model.lora_rank", 0, "the critic has no adapter");
  if (const std::string key = r.find(average) != nullptr ? average : kAggregation; r.text(key) != "token-mean")
    refuse_value(r, key, "the value loss is a mean over all tokens of an update", "token-mean",
                 "set " + average + "=token-mean");
}

void verl_lengths(Import& r) {
  for (const auto& [target, key] : Pairs{{"data.files", "data.train_files"}, {"model.path", kModel + "path"}})
    if (!r.is_set(target) && !r.user_sets("task.name")) r.refuse(key, "is missing. Fix: add " + key + "=PATH");
  const std::string limit = "data.max_prompt_length";  // built-in tasks have none
  if (r.find(limit) != nullptr || r.is_set("data.files")) r.set("data.max_prompt_tokens", r.value(limit), limit);
  for (const auto& [key, limit_key] : Pairs{{"actor_rollout_ref.rollout.prompt_length", "data.max_prompt_length"},
                                            {"actor_rollout_ref.rollout.response_length", "data.max_response_length"}})
    if (r.find(key) != nullptr && *r.find(key) != r.value(limit_key))
      refuse_value(r, key, "section data has another limit", r.text(limit_key), "remove it");
  if (const std::string type = kActor + "fsdp_config.model_dtype"; r.find(type) != nullptr && r.text(type) != "fp32")
    r.remark(type + ": Keel keeps the optimizer's weights in float32");
  if (const std::string mode = r.text("data.truncation"); mode != "error" && !r.is_true("data.filter_overlong_prompts"))
    r.remark("data.truncation " + mode + ": verl truncates prompts above data.max_prompt_length, Keel skips them");
}

}  // namespace

void add_verl_rules(KeyTable& t) {
  t.computes("actor_rollout_ref.model.{lora_rank lora_alpha target_modules}",
             "lora.rank lora.alpha lora.target_modules", verl_adapter);
  t.computes("actor_rollout_ref.actor.ppo_mini_batch_size", "train.sequences_per_update", verl_sizes);
  t.computes("trainer.{total_training_steps total_epochs}", "train.steps train.data_epochs", verl_length);
  t.computes(
      "actor_rollout_ref.actor.grad_clip actor_rollout_ref.actor.optim.{clip_grad betas lr_warmup_steps "
      "lr_warmup_steps_ratio lr_scheduler_type warmup_style min_lr_ratio}",
      "optimizer.max_grad_norm optimizer.schedule optimizer.warmup_updates optimizer.min_lr_ratio", verl_optimizer);
  t.computes(
      "custom_reward_function.{path name reward_kwargs} reward.custom_reward_function.{path name reward_kwargs} "
      "reward_model.{reward_manager overlong_buffer reward_kwargs} reward.{reward_manager.name reward_kwargs} "
      "reward_manager.name",
      "reward.functions reward.overlong_buffer reward.overlong_penalty", verl_reward);
  t.computes("algorithm.{adv_estimator norm_adv_by_std_in_grpo}", "objective.advantage", verl_advantage);
  t.computes(
      "actor_rollout_ref.actor.{policy_loss.loss_mode policy_loss.parameters policy_loss.dro_beta loss_agg_mode "
      "clip_ratio clip_ratio_low clip_ratio_high clip_ratio_c tau_pos tau_neg}",
      "objective.method objective.delta_low objective.delta_high objective.parameters objective.aggregation",
      verl_loss);
  t.computes(
      "actor_rollout_ref.actor.{use_kl_loss kl_loss_coef} algorithm.{use_kl_in_reward "
      "kl_ctrl.type kl_ctrl.kl_coef kl_ctrl.target_kl kl_ctrl.horizon}",
      "reference.kl_coefficient reference.estimator reference.kl_in_reward", verl_kl);
  t.computes(
      "critic.{enable cliprange_value ppo_epochs ppo_mini_batch_size shuffle loss_agg_mode} critic.model.{path "
      "lora_rank} critic.optim.{lr weight_decay betas lr_warmup_steps lr_warmup_steps_ratio warmup_style "
      "lr_scheduler_type min_lr_ratio num_cycles clip_grad optimizer optimizer_impl zero_indexed_step "
      "override_optimizer_config} algorithm.{gamma lam} trainer.critic_warmup",
      "critic.body critic.lr critic.value_clip critic.gamma critic.lambda critic.warmup_steps", verl_critic);
  t.computes("algorithm.filter_groups.{enable metric max_num_gen_batches} data.gen_batch_size",
             "rollout.dynamic_sampling rollout.max_batches", verl_filter);
  t.computes("actor_rollout_ref.rollout.{prompt_length response_length} data.{max_prompt_length truncation}",
             "data.max_prompt_tokens rollout.max_new_tokens", verl_lengths);
  t.computes("trainer.logger", "record.tensorboard", [](Import& r) { set_trackers(r, "trainer.logger"); });
}

}  // namespace keel::compat
