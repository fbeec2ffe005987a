#include "cli/run_description.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "cli/description_parts.h"
#include "cli/estimate_description.h"
#include "keel/core/console.h"
#include "keel/core/files/json_file.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/precision.h"
#include "keel/objective/methods.h"
#include "keel/reward/reward_options.h"
#include "keel/rollout/sampling_weights.h"
#include "keel/task/task_table.h"
#include "keel/train/health.h"
#include "keel/train/start/planned_steps.h"
#include "keel/train/start/prompt_sources.h"
#include "keel/train/start/starting_model.h"
#include "keel/train/start/step_estimate.h"
#include "keel/train/update/critic_training.h"

namespace keel::cli {

namespace {

/// The choices that differ from the method's equation: "divergence", "anchor".
std::vector<std::string> changed_choices(const Objective& objective) {
  const auto defaults = choice_parameters(find_method(objective.method.name, "").region);
  std::vector<std::string> changed;
  for (const auto& [name, choice] : choice_parameters(objective.method.region))
    if (std::find(defaults.begin(), defaults.end(), std::pair(name, choice)) == defaults.end())
      changed.push_back(name + " " + choice);
  return changed;
}

std::string describe_method(const Objective& objective) {
  std::vector<std::string> values;
  const TrustRegion& region = objective.method.region;
  for (const auto& [name, value] : number_parameters(region))
    if (has_effect(region, name))
      values.push_back(name + " = " + (std::isinf(value) ? "none" : short_number(value)) +
                       (name == "low" && value >= 1 && std::holds_alternative<PpoClip>(region)
                            ? " (blocks nothing: no ratio is below 0)"
                            : ""));
  for (const auto& [name, choice] : choice_parameters(region))
    if (has_effect(region, name)) values.push_back(name + " = " + choice);
  const std::vector<std::string> changed = changed_choices(objective);
  return entry("method", objective.method.name + ": " + objective.method.equation + "\n" +
                             (values.empty() ? "no parameters" : joined(values)) +
                             (changed.empty() ? "" : "\nwith " + joined(changed) + " instead of the equation's")) +
         describe_advantage(objective);
}

int64_t largest_parameter_size(const ModelWeights& model) {
  int64_t largest = 0;
  for (const NamedWeight& weight : model.trainable()) largest = std::max(largest, weight.weight.value().numel());
  return largest;
}

/// Describes the number and format of the rows; for a task, the chat template settings.
std::string describe_rows(const PromptSources& prompt_sources) {
  if (prompt_sources.task() != nullptr) return joined(prompt_sources.notes(), "\n");
  std::string text = counted(prompt_sources.data().rows, "row");
  for (const std::string& note : prompt_sources.notes()) text += "\n" + note;
  if (const auto trained = static_cast<int64_t>(prompt_sources.eval_rows_in_training()); trained > 0)
    text += "\nincludes the prompts of " + counted(trained, "row") + " of data.eval_files";
  return text;
}

/// The stop tokens as text: "<|im_end|>, <|endoftext|>".
std::string stop_token_texts(const std::vector<int32_t>& stop_ids, const Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  for (const int32_t id : stop_ids)
    texts.push_back(id < tokenizer.size() ? escape_controls(tokenizer.token(id)) : std::to_string(id));
  return joined(texts);
}

/// `rows` is from describe_rows, `stops` from stop_token_texts; both may be empty.
std::string describe_data(const Config& config, const std::string& rows, const std::string& stops) {
  std::vector<std::string> stop_texts;
  if (!stops.empty()) stop_texts.push_back(stops);
  for (const std::string& text : config.rollout.stop_strings) stop_texts.push_back(format_short_json(text));
  const std::string limit = "completions of at most " + std::to_string(resolve_max_new_tokens(config)) + " tokens" +
                            (stop_texts.empty() ? "" : ", stop at " + joined(stop_texts));
  if (config.data.files.empty())
    return entry("task", config.task.name + ", " + limit + (rows.empty() ? "" : "\n" + rows));
  std::string text = entry("data", joined(config.data.files) + (rows.empty() ? "" : "\n" + rows) +
                                       (config.data.shuffle ? "" : "\nrows in the order of the files") + "\n" + limit);
  if (!config.data.eval_files.empty()) text += entry("held out", joined(config.data.eval_files));
  if (config.data.held_out > 0) text += entry("held out", short_number(100 * config.data.held_out) + " % of the rows");
  return text;
}

std::string describe_reward(const Config& config) {
  const RewardOptions& reward = config.reward;
  const std::vector<std::string> functions =
      !reward.functions.empty() ? reward.functions
                                : std::vector<std::string>{config.data.files.empty() ? "task" : "math"};
  std::vector<std::string> weighted;
  for (size_t i = 0; i < functions.size(); ++i)
    weighted.push_back(short_number(i < reward.weights.size() ? reward.weights[i] : 1) + " x " + functions[i]);
  if (reward.overlong_buffer > 0)
    weighted.push_back(short_number(reward.overlong_penalty) + " x overlong (the last " +
                       std::to_string(reward.overlong_buffer) + " of " +
                       counted(resolve_max_new_tokens(config), "token") + ")");
  return entry("reward",
               joined(weighted, " + ") + (reward.on_error == "stop" ? "" : "; where one fails: " + reward.on_error));
}

/// `largest` is the size of the largest trained parameter, if known.
std::string describe_optimizer(const Config& config, std::optional<int64_t> largest) {
  const OptimizerOptions& optimizer = config.optimizer;
  const bool too_small = largest && *largest < kMin8BitSize;
  const std::string moments = optimizer.moments != "8bit" ? ""
                              : !too_small
                                  ? ", moments in 8 bits"
                                  : "\nmoments in float32: optimizer.moments=8bit applies to parameters of at least " +
                                        std::to_string(kMin8BitSize) + " elements, and the largest trained one has " +
                                        std::to_string(*largest);
  return entry("optimizer", describe_rate(optimizer, config.planned_updates(config.train.steps),
                                          static_cast<double>(config.updates_per_step())) +
                                ", weight decay " + short_number(optimizer.weight_decay) + ", gradients clipped at " +
                                short_number(optimizer.max_grad_norm) + moments);
}

std::string describe_sampler(const Config& config) {
  const double noise = config.rollout.logit_noise;
  const int64_t staleness = config.rollout.staleness;
  return entry(
      "sampler",
      config.rollout.weights + ": " + sampling_precision(config.rollout.weights).description +
          (noise > 0 ? "\nGaussian noise of standard deviation " + short_number(noise) + " on every logit" : "") +
          (staleness > 0 ? "\n" + counted(staleness, "step") + " behind the trained policy" : ""));
}

/// The completions that are excluded from updates.
std::string describe_exclusions(const Config& config) {
  std::vector<std::string> parts;
  if (config.rollout.dynamic_sampling)
    parts.push_back("groups of equal rewards are replaced, sampling at most " +
                    std::to_string(config.rollout.max_batches) +
                    (config.rollout.max_batches == 1 ? " batch" : " batches"));
  if (config.train.mask_truncated) parts.push_back("truncated completions are masked");
  return parts.empty() ? "" : "\n" + joined(parts, "; ");
}

/// The length in steps and, if set, in epochs over `prompts` prompts.
std::string describe_length(const TrainOptions& train, uint64_t prompts) {
  const std::string steps = counted(train.steps, "step");
  if (!train.data_epochs) return steps;
  return steps + " (train.data_epochs " + short_number(*train.data_epochs) + " over " +
         counted(static_cast<int64_t>(prompts), "prompt") + ")";
}

/// `prompts` is the number of prompts in an epoch, if the length is set in epochs.
std::string describe_sizes(const Config& config, uint64_t prompts, std::optional<int64_t> largest = std::nullopt) {
  std::string text;
  if (config.sft.steps > 0 && config.sft.files.empty())
    text += entry("sft", "at most " + std::to_string(config.sft.steps) + " supervised updates");
  return text +
         entry("step", std::to_string(config.train.prompts_per_step) + " prompts x " +
                           std::to_string(config.rollout.samples_per_prompt) +
                           " samples = " + std::to_string(config.rollouts_per_step()) + " completions; " +
                           counted(config.updates_per_step(), "update") + " of " +
                           counted(config.sequences_per_update(), "completion") + "\n" +
                           describe_length(config.train, prompts) + ", " + std::to_string(config.train.epochs) +
                           (config.train.epochs == 1 ? " pass" : " passes") + " over each batch, temperature " +
                           short_number(config.rollout.temperature) + describe_exclusions(config)) +
         describe_optimizer(config, largest);
}

/// Describes evaluations on `prompts` prompts.
std::string describe_evaluation(const Config& config, int64_t prompts, const std::string& extent) {
  const EvalOptions& eval = config.eval;
  if (eval.prompts == 0) return entry("evaluation", "none");
  if (prompts == 0 && config.data.held_out > 0)
    return entry("evaluation", "none: data.held_out, " + short_number(config.data.held_out) +
                                   ", is too small: no row is held out; raise it");
  if (prompts == 0) return entry("evaluation", "none: neither data.eval_files nor data.held_out is set");
  const std::string& metric = config.checkpoint.best_metric;
  const std::string best = metric == "auto" ? "eval/accuracy or eval/reward" : metric;
  return entry(
      "evaluation",
      counted(prompts, "prompt") + " x " + counted(eval.samples, "sample") + ", " +
          describe_temperature(eval.temperature, eval.samples) +
          (eval.top_k > 0 ? ", top_k " + std::to_string(eval.top_k) : "") +
          (eval.top_p < 1 ? ", top_p " + short_number(eval.top_p) : "") +
          (eval.every > 0 ? "; every " + counted(eval.every, "step") : "") + ", before and after" +
          (extent.empty() ? "" : "\n" + extent) +
          (config.checkpoint.keeps_best() ? "\nthe best checkpoint by " + best + " is kept as checkpoints/best" : ""));
}

/// Warns that an alarm may end the run.
std::string describe_health(const HealthOptions& health) {
  if (health.on_alarm != "stop") return "";
  return entry("health", "an alarm of " + counted(kAlarmSteps, "step") + " saves the run and stops it");
}

struct Inputs {
  std::string rows;  // from describe_rows
  int64_t held_out;  // prompts to evaluate on
  int64_t longest_held_out;
  std::string extent;  // the part of the held-out prompts that is evaluated; empty: all
  PromptLengths lengths;
  uint64_t per_epoch;  // prompts, if the run's length is set in epochs
  Json adapter;        // adapter_config.json; empty: none
  at::ScalarType saved_as;
  std::string stops;                      // from stop_token_texts
  std::string supervised = "";            // description of the supervised phase
  std::optional<SftSizes> sft_rows = {};  // of the supervised phase, if it is on files
};

uint64_t prompts_of_epoch(const Config& config, const PromptSources& prompt_sources) {
  return config.train.data_epochs ? prompt_sources.prompts_per_epoch() : 0;
}

/// Opens the inputs as the start of the run does, with the same errors. Computes the number of steps if it is set in
/// epochs.
Inputs read_inputs(Config& config) {
  check_model_and_data(config);
  if (config.model.path.empty()) {
    make_reward(
        config.reward, [](const Prompt&, std::string_view) { return 0.0; }, {}, resolve_max_new_tokens(config));
    const std::unique_ptr<Task> task = make_task(config.task);
    const Tokenizer tokenizer = task->tokenizer();
    const auto encode = [&](const std::string& text) { return tokenizer.encode(text); };
    const auto longest = static_cast<int64_t>(longest_prompt(*task, config.run.seed, encode));
    Json adapter;
    if (!config.lora.adapter.empty()) {
      LoadedModel policy = load_starting_model(config, {at::kCPU});
      add_starting_adapter(policy, config);
      adapter = policy.adapter;
    }
    return {.rows = "",
            .held_out = config.prompts_per_evaluation(),
            .longest_held_out = longest,
            .extent = "",
            .lengths = {longest, static_cast<double>(longest)},
            .per_epoch = 0,
            .adapter = adapter,
            .saved_as = at::kFloat,
            .stops = tokenizer.eos_id() ? stop_token_texts({*tokenizer.eos_id()}, tokenizer) : ""};
  }
  LoadedModel policy = starting_model_without_weights(config);
  add_starting_adapter(policy, config);
  PromptSources prompt_sources = PromptSources::for_run(config, policy);
  Demonstrations demonstrations(config, policy);
  demonstrations.require_rows();
  if (config.has_rl()) prompt_sources.require_prompt();
  plan_steps(config, prompt_sources);
  plan_sft_steps(config, demonstrations);
  const HeldOutPrompts held_out = prompt_sources.held_out(config.prompts_per_evaluation());
  return {.rows = config.has_rl() ? describe_rows(prompt_sources) : "",
          .held_out = static_cast<int64_t>(held_out.prompts.size()),
          .longest_held_out = held_out.longest_prompt(),
          .extent = held_out.extent(),
          .lengths = config.has_rl() ? prompt_sources.lengths() : PromptLengths(),
          .per_epoch = prompts_of_epoch(config, prompt_sources),
          .adapter = policy.adapter,
          .saved_as = saved_type(policy),
          .stops = stop_token_texts(policy.stop_ids, policy.tokenizer),
          .supervised = describe_supervised(config, demonstrations),
          .sft_rows = demonstrations.from_files() ? std::optional(demonstrations.sizes()) : std::nullopt};
}

/// Describes KL terms, entropy terms and adaptive thresholds.
std::string explain_extra_terms(const Objective& objective, const Config& config) {
  std::string text;
  if (objective.kl_coefficient > 0)
    text += "  reference   the policy at the start of RL, " + short_number(objective.kl_coefficient) + " x KL by " +
            config.reference.estimator + "\n";
  if (const RewardKlPenalty& kl = objective.reward_kl; kl.coefficient > 0)
    text += "  reference   the policy at the start of RL; rewards are reduced by " + short_number(kl.coefficient) +
            " x KL by " + config.reference.kl_in_reward_estimator +
            (kl.target ? ", adapted to a KL of " + short_number(*kl.target) : "") + "\n";
  if (objective.entropy_coefficient != 0)
    text += (objective.entropy_coefficient > 0 ? "  entropy     bonus of " : "  entropy     penalty of ") +
            short_number(std::abs(objective.entropy_coefficient)) + "\n";
  if (objective.centering == Centering::kTopK)
    text += "  centering   of scores, over the sampler's " + std::to_string(kCenteringTopK) + " most likely tokens\n";
  if (objective.centering == Centering::kExact) text += "  centering   of scores, over the whole vocabulary\n";
  if (objective.target_kept)
    text += "  thresholds  adapt to keep " + short_number(100 * *objective.target_kept) + " % of the tokens inside\n";
  return text;
}

std::string explain_critic(const Config& config, const ModelConfig& shape) {
  const CriticOptions& critic = config.critic;
  if (!critic.enabled()) return "";
  const OptimizerOptions& optimizer = config.optimizer;
  const int64_t lm_head = shape.tie_word_embeddings ? 0 : shape.vocab_size * shape.hidden_size;
  const int64_t backbone = critic.has_separate_body() ? shape.parameter_count() - lm_head : 0;
  std::string text =
      "  critic      a value head on " +
      std::string(critic.has_separate_body() ? "a separate body, initialised from the policy" : "the policy's body") +
      ": " + format_count(backbone + shape.hidden_size + 1) + " extra parameters, learning rate " +
      short_number(critic_optimizer_options(critic, config.optimizer).lr) +
      (optimizer.lr_varies() ? ", on the policy's schedule\n" : "\n");
  text += "              GAE with gamma " + short_number(critic.gamma) + ", lambda " + short_number(critic.lambda) +
          ", whitened advantages; values clipped at " +
          (critic.value_clip ? short_number(*critic.value_clip) : "nothing") + "\n";
  if (critic.warmup_steps > 0)
    text += "              the policy is frozen for the first " + std::to_string(critic.warmup_steps) + " steps\n";
  return text;
}

std::string describe_support(const SamplingFilter& filter) {
  if (filter.keeps_all()) return "full support";
  std::vector<std::string> limits;
  if (filter.top_k > 0) limits.push_back("top_k " + std::to_string(filter.top_k));
  if (filter.top_p < 1) limits.push_back("top_p " + short_number(filter.top_p));
  if (filter.min_p > 0) limits.push_back("min_p " + short_number(filter.min_p));
  return "truncated to " + joined(limits) + ", also in the trainer";
}

std::string head_cost(const Requirements& needs) {
  const std::string sampler = needs.hidden_states ? ", and 2 N H V for the sampler's distribution" : "";
  switch (needs.scope) {
    case Scope::kToken:
      return "6 N H V (coefficients need only their own token)" + sampler;
    case Scope::kSequence:
      return "8 N H V (coefficients need whole sequences: statistics first, then gradients)" + sampler;
    case Scope::kBatch:
      break;
  }
  return "8 N H V and another forward of the body (coefficients need the whole update)" + sampler;
}

}  // namespace

std::string describe_temperature(double temperature, int64_t samples) {
  if (temperature > 0) return "temperature " + short_number(temperature);
  return samples > 1 ? "greedy (all equal)" : "greedy";
}

namespace {

/// The user's configuration with the step counts of the run.
Config with_step_counts(Config config, const Run& run) {
  config.train.steps = run.config().train.steps;
  config.sft.steps = run.config().sft.steps;
  return config;
}

std::string without_last_newline(std::string text) {
  text.pop_back();
  return text;
}

std::string describe_seed_and_folder(const RunOptions& run) {
  return entry("seed", std::to_string(run.seed)) + entry("run folder", run.dir);
}

/// Describes a run without RL.
std::string describe_supervised_run(const Config& config, const Run& run) {
  const ModelWeights& model = run.policy().model;
  return without_last_newline(describe_model(config, model.config(), run.policy().adapter, model.compute_type(),
                                             describe_device(model.device())) +
                              describe_saving(config, saved_type(run.policy())) +
                              describe_supervised(config, run.demonstrations()) + describe_seed_and_folder(config.run));
}

}  // namespace

std::string describe_run(const Config& user_config, Run& run) {
  const Config config = with_step_counts(user_config, run);
  if (!config.has_rl()) return describe_supervised_run(config, run);
  const PromptSources& prompt_sources = run.prompt_sources();
  const ModelWeights& model = run.policy().model;
  const Objective objective = run.objective();
  const HeldOutPrompts held_out = run.held_out();
  const RunSizes sizes{config,         model.config(),           model.compute_type(),
                       model.device(), prompt_sources.lengths(), static_cast<int64_t>(held_out.prompts.size())};
  std::string text = describe_method(objective) + explain_extra_terms(objective, config) +
                     describe_model(config, model.config(), run.policy().adapter, model.compute_type(),
                                    describe_device(model.device())) +
                     describe_saving(config, saved_type(run.policy())) + explain_critic(config, model.config()) +
                     describe_sampler(config) + describe_supervised(config, run.demonstrations()) +
                     describe_data(config, describe_rows(prompt_sources),
                                   stop_token_texts(run.policy().stop_ids, run.policy().tokenizer)) +
                     describe_reward(config) +
                     describe_sizes(config, prompts_of_epoch(config, prompt_sources), largest_parameter_size(model)) +
                     describe_rollout(plan_rollout(sizes), sizes.prompts.longest) +
                     describe_evaluation(config, sizes.held_out, held_out.extent()) + describe_health(config.health) +
                     describe_seed_and_folder(config.run);
  return without_last_newline(std::move(text));
}

Explanation explain(const Config& user_config, Console& console) {
  Config config = user_config;
  const at::Device device = open_run_device(config.run, console);
  const ModelConfig shape = starting_model_config(config);
  const Objective objective =
      make_objective(config.objective, static_cast<double>(resolve_max_new_tokens(config)), config.reference);
  const Inputs inputs = read_inputs(config);
  const RunSizes sizes{config,
                       shape,
                       compute_type(config.run.precision, device),
                       device,
                       inputs.lengths,
                       inputs.held_out,
                       inputs.sft_rows,
                       inputs.longest_held_out};
  const std::string model = describe_model(config, shape, inputs.adapter, sizes.type, describe_device(device)) +
                            describe_saving(config, inputs.saved_as);
  Explanation explanation{
      .resources = {memory_resource(sizes, estimate_run_memory(sizes)), disk_resource(sizes, inputs.saved_as)}};
  std::string estimate;
  for (const Resource& resource : explanation.resources) estimate += describe_resource(resource);
  if (std::ranges::none_of(explanation.resources, &Resource::is_short)) {
    const DeviceSpeed speed = measure_device_speed(device, sizes.type);
    estimate += config.has_rl() ? describe_time(sizes, objective.requirements(), speed)
                                : describe_supervised_time(sizes, speed);
  }
  const std::string recomputed = objective.requirements().recomputed_logp ? " and those recomputed by the trainer" : "";
  explanation.text = !config.has_rl()
                         ? model + inputs.supervised
                         : describe_method(objective) + explain_extra_terms(objective, config) +
                               entry("anchor", "the sampler's log-probabilities" + recomputed + ", temperature " +
                                                   short_number(config.rollout.temperature) + ", " +
                                                   describe_support(config.rollout.filter)) +
                               describe_sampler(config) + model + explain_critic(config, shape) + inputs.supervised +
                               describe_data(config, inputs.rows, inputs.stops) + describe_reward(config) +
                               describe_sizes(config, inputs.per_epoch) +
                               describe_rollout(plan_rollout(sizes), sizes.prompts.longest) +
                               describe_evaluation(config, inputs.held_out, inputs.extent) +
                               describe_health(config.health) + entry("head cost", head_cost(objective.requirements()));
  explanation.text = without_last_newline(explanation.text + estimate + describe_seed_and_folder(config.run));
  return explanation;
}

}  // namespace keel::cli
