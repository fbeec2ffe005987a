#include "keel/train/config/config.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "keel/core/error.h"
#include "keel/core/files/tilde.h"
#include "keel/core/strings.h"
#include "keel/evaluation/statistics.h"
#include "keel/task/task_table.h"
#include "keel/train/config/non_default_keys.h"
#include "keel/train/config/sft_settings.h"

namespace keel {

void Config::describe(OptionTable& table) {
  table.section("run", "Output folder, seed, device and precision.", run);
  table.section("model", "The model to start from, or the shape of a randomly initialised network.", model);
  table.section("lora", "A low-rank adapter that is trained instead of the full weights.", lora);
  table.section("data", "Prompts from files.", data);
  table.section("task", "The built-in task.", task);
  table.section("sft", "Supervised updates, before RL or alone: on rows of files, or on demonstrations of the task.",
                sft);
  table.section("rollout", "How completions are sampled.", rollout);
  table.section("reward", "Reward functions and penalties.", reward);
  table.section("objective", "The method and its trust region.", objective);
  table.section("reference", "KL penalty towards the policy that RL starts from.", reference);
  table.section(
      "critic",
      "The critic of PPO, for objective.advantage=gae. Except for lr, it uses the optimizer settings of the policy.",
      critic);
  table.section("optimizer", "AdamW in the RL phase.", optimizer);
  table.section("train", "The RL phase.", train);
  table.section("health", "Alarms for runs that stop learning or collapse.", health);
  table.section("eval", "Accuracy on held-out prompts.", eval);
  table.section("checkpoint", "Which checkpoints are saved, and when.", checkpoint);
  table.section("record", "What is recorded about steps and tokens.", record);
  add_removed_settings(table);
}

constexpr int64_t kMaxRolloutsPerStep = int64_t{1} << 24;

int64_t Config::prompts_per_evaluation() const {
  constexpr int64_t kTaskPrompts = 512;
  const bool uses_task = data.files.empty() && data.eval_files.empty();
  return eval.prompts.value_or(uses_task ? kTaskPrompts : kMaxRolloutsPerStep / eval.samples);
}

int64_t Config::sequences_per_update() const {
  return train.sequences_per_update > 0 ? train.sequences_per_update : rollouts_per_step();
}

namespace {

[[noreturn]] void fail_conflict_with_adapter(const std::string& location, const std::string& setting,
                                             const Config& config) {
  fail(ExitCode::kBadConfiguration, location, setting, " is set, but lora.adapter is ", config.lora.adapter,
       ", whose adapter_config.json sets rank, alpha and layers; remove one of the two");
}

/// Fails if a lora setting would be ignored: without lora.rank, or because lora.adapter has its own settings.
void require_rank(const ConfigTree& tree, const OptionTable& table, const Config& config) {
  const bool has_adapter = !config.lora.adapter.empty();
  if (!has_adapter && (config.lora.used() || find_non_null(tree, "lora.rank") != nullptr)) return;
  for (const Option& option : table.options()) {
    if (!option.path.starts_with("lora.") || option.path == "lora.adapter" ||
        find_non_null(tree, option.path) == nullptr)
      continue;
    if (!has_adapter)
      fail(ExitCode::kBadConfiguration, location_of(tree, option.path), ": ", option.path,
           " is set, but lora.rank is not, so all weights would be trained; set lora.rank (0 to train all weights)");
    // config.yaml of a run names every setting, so only typed ones are checked here; check_sources() does the rest.
    if (option.path != "lora.dropout" && on_command_line(tree, option.path) && *find_non_null(tree, option.path) != 0)
      fail_conflict_with_adapter(location_of(tree, option.path) + ": ", option.path, config);
  }
}

/// Expands PEFT's "all-linear" to the default target_modules, which are all linear layers.
ConfigTree expand_all_linear(ConfigTree tree) {
  const Json* layers = find_value(tree, "lora.target_modules");
  if (layers != nullptr && (*layers == "all-linear" || *layers == Json::array({"all-linear"})))
    tree.value["lora"]["target_modules"] = LoraOptions().target_modules;
  return tree;
}

/// Notes on settings whose feature is switched off.
std::vector<std::string> unused_settings(const Config& config) {
  std::vector<std::string> notes = unused_sft_settings(config);
  if (!config.rollout.dynamic_sampling && config.rollout.max_batches != RolloutOptions().max_batches)
    notes.push_back("rollout.max_batches does nothing: rollout.dynamic_sampling is false");
  if (config.reward.overlong_buffer == 0 && config.reward.overlong_penalty != RewardOptions().overlong_penalty)
    notes.push_back("reward.overlong_penalty does nothing: reward.overlong_buffer is 0");
  for (const std::string& function : config.reward.functions)
    if (const std::optional<double> from = soft_penalty_start(function);
        from && *from >= resolve_max_new_tokens(config))
      notes.push_back("reward.functions: " + function + " does nothing: no completion has more than " +
                      std::to_string(resolve_max_new_tokens(config)) + " tokens");
  const std::vector<double>& weights = config.reward.weights;
  if (!weights.empty() && config.reward.overlong_buffer == 0 &&
      std::count(weights.begin(), weights.end(), 0) == std::ssize(weights))
    notes.push_back("reward.weights are all 0, so every reward is 0 and the policy learns nothing");
  if (config.optimizer.schedule == "constant" && config.optimizer.min_lr_ratio > 0)
    notes.push_back("optimizer.min_lr_ratio does nothing: optimizer.schedule is constant");
  const ObjectiveOptions& objective = config.objective;
  const std::string advantage =
      objective.advantage.value_or(find_method(objective.method, "objective.method: unknown method").advantage);
  if (objective.advantage_eps && advantage != "grpo" && advantage != "gdpo")
    notes.push_back("objective.advantage_eps does nothing: the advantage " + advantage +
                    " does not divide by the standard deviation of a group");
  const OptimizerOptions& optimizer = config.optimizer;
  if (optimizer.schedule_per == "step" && !optimizer.lr_varies())
    notes.push_back("optimizer.schedule_per does nothing: the learning rate is constant, without warm-up");
  const ReferenceOptions& reference = config.reference;
  for (const std::string& key : non_default_keys(reference)) {
    const bool in_reward = key.starts_with("kl_in_reward");
    const char* weight = in_reward ? "kl_in_reward" : "kl_coefficient";
    if ((in_reward ? reference.kl_in_reward : reference.kl_coefficient) == 0)
      notes.push_back("reference." + key + " does nothing: reference." + weight + " is 0");
    else if (key == "kl_in_reward_horizon" && !reference.kl_in_reward_target)
      notes.push_back("reference." + key + " does nothing: reference.kl_in_reward_target is not set");
  }
  return notes;
}

/// Notes objective settings of a file that also apply to a method typed on the command line. They may mean something
/// else there: a bound on the ratio becomes a bound on a divergence.
std::vector<std::string> note_file_objective(const ConfigTree& tree, const Config& config) {
  if (tree.file.empty() || !on_command_line(tree, "objective.method")) return {};
  std::vector<std::string> kept;
  for (const char* key : {"delta", "delta_low", "delta_high", "ratio_cap", "anchor", "parameters", "advantage",
                          "advantage_eps", "aggregation"}) {
    const std::string path = std::string("objective.") + key;
    const Json* value = find_non_null(tree, path);
    if (value == nullptr || value->empty() || on_command_line(tree, path)) continue;
    kept.push_back(path + " " + as_text(*value));
  }
  if (kept.empty()) return {};
  const std::string& method = config.objective.method;
  return {"objective.method=" + method + " on the command line also uses settings of " + tree.file + ": " +
          joined(kept) + "; set them to null ([] for objective.parameters) to use the method's defaults, which `keel " +
          "methods " + method + "` lists"};
}

}  // namespace

Config load_config(const ConfigTree& tree, std::vector<std::string>& notes, Purpose purpose) {
  Config config;
  OptionTable table;
  config.describe(table);
  table.load(expand_all_linear(tree));
  require_rank(tree, table, config);
  resolve_length(tree, "train", config.train.steps, config.train.data_epochs);
  resolve_sft_length(tree, config.sft);
  reject_rl_optimizer(tree, config);
  try {
    check_consistency(config, purpose);
  } catch (const Error& error) {
    // The message begins with the key of the contradicting setting; only the tree knows where it was set.
    const std::string message = error.what(), key = message.substr(0, message.find(' '));
    const std::string location = find_value(tree, key) != nullptr ? location_of(tree, key) : tree.file;
    fail(error.code(), location, location.empty() ? "" : ": ", message);
  }
  if (purpose == Purpose::kEvaluation) return config;
  const auto add = [&](const std::vector<std::string>& more) { notes.insert(notes.end(), more.begin(), more.end()); };
  add(unused_settings(config));
  add(note_file_objective(tree, config));
  const Json* method = find_non_null(tree, "objective.method");
  if (method != nullptr && *method == "ppo" && !config.objective.advantage)
    notes.push_back("objective.method ppo uses group advantages without a critic; PPO with a critic is ppo_gae");
  return config;
}

std::string command_line_name(const ConfigTree& tree, const std::string& option) {
  if (on_command_line(tree, option)) return option;
  const std::string section = option.substr(0, option.find('.'));  // `model: FOLDER` is model.path
  const Json* value =
      option == section + ".path" && on_command_line(tree, section) ? find_value(tree, section) : nullptr;
  return value != nullptr && value->is_string() ? section : "";
}

namespace {

/// Returns whether a built-in task reads a setting of section data: its prompts use the chat template of a loaded
/// model.
bool applies_to_task(const Config& c, const std::string& key) {
  return !c.model.path.empty() && key == "chat_template_kwargs";
}

/// Rejects settings that a loaded model, an adapter or files make meaningless.
void check_sources(const Config& c, Purpose purpose) {
  find_task(c.task.name);  // rejects unknown names
  const auto refuse = [](const auto&... parts) { fail(ExitCode::kBadConfiguration, parts...); };
  for (const std::string& key : non_default_keys(c.model))
    if (!c.model.path.empty() && key != "path" && key != "random_weights")
      refuse("model.", key, " is set, but model.path is ", c.model.path,
             ", which determines the architecture; remove one of the two");
  if (c.model.path.empty() && c.model.random_weights)
    refuse("model.random_weights needs model.path for the architecture and tokenizer; set model.path");
  const bool has_files = !c.data.files.empty() || !c.data.eval_files.empty();
  if (has_files && !non_default_keys(c.task).empty())
    refuse("task.", non_default_keys(c.task)[0], " is set, but prompts come from ",
           c.data.files.empty() ? "data.eval_files" : "data.files", "; remove one of the two");
  for (const std::string& key : non_default_keys(c.data))
    if (!has_files && !c.has_rl() && !applies_to_sft_files(key))
      refuse("data.", key, " applies to RL prompts, and this run has no RL phase; ",
             key == "answer_key"          ? "set sft.completion_key, the column of the completion"
             : key == "max_prompt_tokens" ? "set sft.max_tokens, the maximum tokens in a row"
                                          : "remove it");
    else if (!has_files && (c.sft.files.empty() || !applies_to_sft_files(key)) && !applies_to_task(c, key))
      refuse("data.", key, " is set, but no data.files are, and the built-in task ", c.task.name,
             " ignores it; remove it, or set data.files");
  if (c.train.data_epochs && c.data.files.empty())
    refuse("train.data_epochs is ", *c.train.data_epochs, ", but the built-in task ", c.task.name,
           " generates prompts without end; set train.steps, or train on data.files");
  for (const auto& [section, rows] : {std::pair<const char*, const RowFiles*>{"data", &c.data}, {"sft", &c.sft}})
    if (!rows->eval_files.empty() && rows->held_out > 0)
      refuse(section, ".held_out is ", rows->held_out, ", but ", section, ".eval_files is set; remove one of the two");
  const bool samples = c.has_rl() || purpose == Purpose::kEvaluation;
  if (samples && has_files && c.rollout.max_new_tokens == 0)
    refuse(
        "rollout.max_new_tokens is 0, which means the limit of the built-in task, but prompts come from data.files; ",
        "set rollout.max_new_tokens (TRL and verl default to 512)");
  check_sft(c);
  for (const std::string& key : non_default_keys(c.lora))
    if (!c.lora.adapter.empty() && key != "adapter" && key != "dropout")
      fail_conflict_with_adapter("", "lora." + key, c);
  const std::vector<std::string>& layers = c.lora.target_modules;
  for (auto layer = layers.begin(); layer != layers.end(); ++layer)
    if (std::find(layers.begin(), layer, *layer) != layer)
      refuse("lora.target_modules has ", *layer, " twice; name it once");
}

/// Requires a critic exactly if the advantage reads its values.
void check_critic(const Config& c, const Objective& objective) {
  const auto refuse = [](const auto&... parts) { fail(ExitCode::kBadConfiguration, parts...); };
  const std::string& advantage = objective.method.advantage;
  if (objective.requirements().value && !c.critic.enabled())
    refuse("objective.advantage is \"", advantage, "\"", c.objective.advantage ? "" : " by the method ",
           c.objective.advantage ? "" : objective.method.name,
           ", which needs a critic, but critic.body is none; set critic.body to separate or shared, or ",
           "objective.advantage to one without values, such as group_mean, grpo or rloo");
  if (!objective.requirements().value && !non_default_keys(c.critic).empty())
    refuse("critic.", non_default_keys(c.critic)[0], " is set, but the advantage ", advantage, " of ",
           c.objective.advantage ? "objective.advantage" : "the method " + objective.method.name,
           " uses no critic; remove it, or set objective.advantage=gae or objective.method=ppo_gae");
  if (c.train.steps > 0 && c.critic.warmup_steps >= c.train.steps)  // plan_steps() checks data_epochs
    refuse("critic.warmup_steps is ", c.critic.warmup_steps, " and train.steps is ", c.train.steps,
           ", so the policy would never be trained; lower critic.warmup_steps or raise train.steps");
}

/// checkpoint.best_metric must be a metric of evaluations, higher being better, and there must be evaluations.
void check_best_metric(const Config& c) {
  const std::string& metric = c.checkpoint.best_metric;
  if (!c.checkpoint.keeps_best()) return;
  const std::vector<std::string> measures = measure_names(c.eval.samples);
  std::vector<std::string> keys = {"eval/accuracy", "eval/reward", "eval/low", "eval/high"};
  if (c.eval.samples > 1)
    for (const std::string& measure : measures) keys.push_back("eval/" + measure);
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool is_per_source = !c.data.files.empty() && metric.starts_with("eval/") &&
                             metric.find('/', 5) != std::string::npos &&
                             has(measures, metric.substr(metric.find_last_of('/') + 1));
  if (metric != "auto" && !has(keys, metric) && !is_per_source)
    fail(ExitCode::kBadConfiguration, "checkpoint.best_metric is \"", metric, "\"; expected none, auto, or an ",
         "evaluation metric for which higher is better; with eval.samples ", c.eval.samples, ": ", joined(keys));
  if (c.prompts_per_evaluation() == 0)
    fail(ExitCode::kBadConfiguration, "checkpoint.best_metric is ", metric, ", but eval.prompts is 0, so there are no ",
         "evaluations; set eval.prompts and eval.every, or remove checkpoint.best_metric");
  const bool holds_out = c.data.files.empty() || !c.data.eval_files.empty() || c.data.held_out > 0;
  if (!holds_out)
    fail(ExitCode::kBadConfiguration, "checkpoint.best_metric is ", metric, ", but neither data.eval_files nor ",
         "data.held_out provides evaluation prompts; set one of them, or remove checkpoint.best_metric");
}

void check_reward_penalties(const Config& c, const Objective& objective) {
  const auto refuse = [](const auto&... parts) { fail(ExitCode::kBadConfiguration, parts...); };
  const bool can_be_negative =
      c.reward.overlong_buffer > 0 || std::ranges::any_of(c.reward.weights, [](double weight) { return weight < 0; });
  if (objective.method.advantage == "maxrl" && can_be_negative)
    refuse("objective.advantage is maxrl, which needs rewards of at least 0, but ",
           c.reward.overlong_buffer > 0 ? "reward.overlong_buffer subtracts a penalty"
                                        : "reward.weights has a negative number",
           "; remove it, or choose objective.advantage=group_mean");
  const double min_horizon = 0.2 * static_cast<double>(c.rollouts_per_step());
  if (objective.reward_kl.coefficient > 0 && objective.reward_kl.target && objective.reward_kl.horizon <= min_horizon)
    refuse("reference.kl_in_reward_horizon is ", objective.reward_kl.horizon, ", but a step has ",
           c.rollouts_per_step(),
           " completions, so the coefficient could fall to 0 in one step; expected a number above ", min_horizon);
  if (c.reward.overlong_buffer > resolve_max_new_tokens(c))
    refuse("reward.overlong_buffer is ", c.reward.overlong_buffer, ", but no completion is longer than ",
           resolve_max_new_tokens(c), " tokens (rollout.max_new_tokens); lower it");
}

}  // namespace

void check_consistency(const Config& c, Purpose purpose) {
  const auto refuse = [](const auto&... parts) { fail(ExitCode::kBadConfiguration, parts...); };
  check_tilde("run.dir", c.run.dir);
  check_sources(c, purpose);
  const Objective objective = make_objective(c.objective, static_cast<double>(resolve_max_new_tokens(c)), c.reference);
  check_critic(c, objective);
  if (c.rollout.logit_noise > 0 && objective.requirements().hidden_states) {
    const bool centers = objective.centering == Centering::kExact;
    refuse("rollout.logit_noise is ", c.rollout.logit_noise, ", but ",
           centers ? "objective.centering=exact computes the distribution"
                   : "the method " + objective.method.name + " computes exact divergences",
           " from the sampler's hidden states, which do not include noise on the logits; choose ",
           centers ? "objective.centering=topk" : "a method with a binary or top-K divergence",
           ", or set rollout.logit_noise to 0");
  }
  check_reward_penalties(c, objective);
  for (const std::string& stop : c.rollout.stop_strings)
    if (stop.empty()) refuse("rollout.stop_strings has an empty string, which would end every completion; remove it");
  const bool compares_step = compares_whole_step(objective.method.advantage);
  if (c.train.has_steps() && c.rollout.samples_per_prompt < 2 && !objective.requirements().value && !compares_step)
    refuse("rollout.samples_per_prompt is ", c.rollout.samples_per_prompt, "; the advantage ",
           objective.method.advantage, " compares completions of one prompt, so a group needs at least 2 ",
           "(objective.advantage=batch_mean and reinforce_pp compare those of a step)");
  if (c.train.has_steps() && c.rollouts_per_step() < 2 && compares_step)
    refuse("train.prompts_per_step x rollout.samples_per_prompt is 1; the advantage ", objective.method.advantage,
           " compares the completions of a step, so it needs at least 2");
  if (c.rollout.dynamic_sampling && c.rollout.samples_per_prompt < 2)
    refuse("rollout.dynamic_sampling is true and rollout.samples_per_prompt is ", c.rollout.samples_per_prompt,
           "; a group of one has equal rewards, so every group would be dropped; raise it to at least 2, or set ",
           "rollout.dynamic_sampling=false");
  if (c.rollout.bitwise && c.rollout.weights != "exact")
    refuse("rollout.bitwise is true and rollout.weights is ", c.rollout.weights,
           ", so sampler and trainer would differ; set rollout.weights=exact, or rollout.bitwise=false");
  if (c.rollout.bitwise && c.rollout.logit_noise > 0)
    refuse("rollout.bitwise is true and rollout.logit_noise is ", c.rollout.logit_noise,
           ", so sampler and trainer would differ; set rollout.logit_noise=0, or rollout.bitwise=false");
  if (c.rollout.bitwise && c.lora.dropout > 0)
    refuse("lora.dropout is ", c.lora.dropout, " and rollout.bitwise is true, but dropout applies to ",
           "training only, so sampler and trainer would differ; set lora.dropout=0, or rollout.bitwise=false");
  for (const auto& [section, optimizer] : {std::pair{"optimizer", &c.optimizer}, {"sft", &c.sft.optimizer}})
    if (optimizer->warmup_updates >= 1 && optimizer->warmup_updates != std::floor(optimizer->warmup_updates))
      refuse(section, ".warmup_updates is ", optimizer->warmup_updates,
             "; expected a whole number of updates, or a fraction of the run below 1");
  if (c.rollouts_per_step() > kMaxRolloutsPerStep)
    refuse("train.prompts_per_step ", c.train.prompts_per_step, " x rollout.samples_per_prompt ",
           c.rollout.samples_per_prompt, " are ", c.rollouts_per_step(), " completions in one step; at most ",
           kMaxRolloutsPerStep, " are supported; lower one of the two");
  if (c.rollouts_per_step() % c.sequences_per_update() != 0)
    refuse(
        "train.sequences_per_update is ", c.sequences_per_update(), ", but a step has ", c.rollouts_per_step(),
        " completions (train.prompts_per_step ", c.train.prompts_per_step, " x rollout.samples_per_prompt ",
        c.rollout.samples_per_prompt, "); choose a divisor of ", c.rollouts_per_step(),
        c.rollouts_kept_together() > 1 ? " that is a multiple of " + std::to_string(c.rollouts_kept_together()) : "");
  if (c.sequences_per_update() % c.rollouts_kept_together() != 0)
    refuse("train.sequences_per_update is ", c.sequences_per_update(),
           ", but train.shuffle is prompts, which keeps the ", c.rollout.samples_per_prompt,
           " completions of a prompt (rollout.samples_per_prompt) in one update; choose a multiple of ",
           c.rollout.samples_per_prompt, " that divides ", c.rollouts_per_step(), ", or set train.shuffle=rollouts");
  if (c.prompts_per_evaluation() * c.eval.samples > kMaxRolloutsPerStep)
    refuse("eval.prompts ", c.prompts_per_evaluation(), " x eval.samples ", c.eval.samples, " are more than the ",
           kMaxRolloutsPerStep, " supported completions; lower one of the two");
  if (c.eval.temperature > 0 && c.eval.temperature < kMinTemperature)
    refuse("eval.temperature is ", c.eval.temperature, "; expected 0 for greedy decoding, or ", kMinTemperature, " to ",
           kMaxTemperature);
  check_best_metric(c);
  if (!c.model.path.empty()) return;  // a model folder is checked when it is loaded
  const std::unique_ptr<Task> task = make_task(c.task);
  const Tokenizer tokenizer = task->tokenizer();
  const ModelConfig shape = model_config(c.model, tokenizer.size());  // rejects invalid sizes
  const auto encode = [&](const std::string& text) { return tokenizer.encode(text); };
  check_positions(c, longest_prompt(*task, c.run.seed, encode), shape.max_position_embeddings);
}

int64_t resolve_max_new_tokens(const Config& c) {
  return c.rollout.max_new_tokens > 0 ? c.rollout.max_new_tokens : make_task(c.task)->max_completion_tokens();
}

size_t longest_prompt(const Task& task, uint64_t seed,
                      const std::function<std::vector<int32_t>(const std::string& text)>& encode) {
  constexpr uint64_t kProblems = 100;
  size_t longest = 0;
  for (uint64_t i = 0; i < kProblems; ++i)
    longest = std::max(longest, encode(task.problem(seed, i, Split::kTrain).prompt).size());
  return longest;
}

void check_positions(const Config& c, size_t prompt_tokens, int64_t positions) {
  int64_t longest = resolve_max_new_tokens(c);
  if (c.sft.steps > 0 && c.sft.files.empty()) longest = std::max(longest, make_task(c.task)->max_completion_tokens());
  const int64_t needed = static_cast<int64_t>(prompt_tokens) + longest;
  if (needed <= positions) return;
  const std::string setting =
      c.model.path.empty() ? "model.max_positions is " : "max_position_embeddings of the model is ";
  fail(ExitCode::kBadConfiguration, setting, positions, ", but a prompt of the task ", c.task.name, " has up to ",
       prompt_tokens, " tokens and a completion up to ", longest, "; ",
       c.model.path.empty() ? "set model.max_positions to at least " + std::to_string(needed) + " or lower " : "lower ",
       "rollout.max_new_tokens");
}

Config quickstart_config() {
  Config c;
  c.run.dir = "runs/quickstart";
  c.run.threads = 1;  // a second thread makes a network this small slower
  c.model.initializer_range = 0.05;
  c.model.max_positions = 128;
  c.sft.steps = 1150;
  c.sft.stop_loss = 0.31;
  c.sft.noisy_steps = 150;
  c.rollout.weights = "fp8";
  c.optimizer.lr = 2e-4;
  c.train.steps = 100;
  c.train.sequences_per_update = 32;
  c.train.shuffle = "rollouts";
  c.eval.prompts = 1000;
  c.checkpoint.every = 20;
  c.record.certificate_every = 1;  // cheap for a network this small
  return c;
}

Json to_json(Config config) {
  OptionTable table;
  config.describe(table);
  return table.dump();
}

std::string to_yaml(Config config, const std::string& heading) {
  OptionTable table;
  config.describe(table);
  return table.dump_yaml(heading);
}

}  // namespace keel
