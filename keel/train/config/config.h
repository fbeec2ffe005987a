#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/options/config_tree.h"
#include "keel/core/options/options.h"
#include "keel/data/data_options.h"
#include "keel/evaluation/eval_options.h"
#include "keel/model/network/lora_options.h"
#include "keel/model/network/model_config.h"
#include "keel/objective/methods.h"
#include "keel/reward/reward_options.h"
#include "keel/rollout/engine.h"
#include "keel/task/task.h"
#include "keel/train/config/purpose.h"
#include "keel/train/update/critic_options.h"
#include "keel/train/update/optimizer.h"

namespace keel {

struct RunOptions {
  std::string dir = "runs/run";
  uint64_t seed = 0;
  std::string device = "auto";
  std::string precision = "auto";
  bool deterministic = false;
  int64_t threads = 0;
  void describe(OptionTable& table);
};

/// Supervised updates before RL, or alone: on rows of the user's files, or on demonstrations of the task. These are
/// noise-free until the loss is below stop_loss, then noisy for noisy_steps updates.
struct SftOptions : RowFiles {
  std::string loss_on = "assistant";
  int64_t max_tokens = 0;
  int64_t steps = 0;  // 0 with data_epochs until plan_sft_steps() computes it from the opened files
  std::optional<double> data_epochs = {};
  int64_t batch = 32;
  std::optional<double> lr = {};
  OptimizerOptions optimizer{.beta2 = 0.95};  // except its learning rate
  int64_t eval_every = 0;
  double stop_loss = 0;
  int64_t noisy_steps = 0;
  std::vector<double> noisy_lr = {1e-3, 3e-4};
  void describe(OptionTable& table);

  /// Returns whether there is a supervised phase.
  bool has_steps() const { return steps > 0 || data_epochs; }
};

struct TrainOptions {
  int64_t steps = 100;  // 0 with data_epochs until plan_steps() computes it from the opened files
  std::optional<double> data_epochs = {};
  int64_t prompts_per_step = 16;
  int64_t sequences_per_update = 0;
  std::string shuffle = "prompts";
  int64_t epochs = 1;
  int64_t tokens_per_batch = 16384;
  bool mask_truncated = false;
  bool recompute_activations = false;
  void describe(OptionTable& table);

  /// Returns whether there is an RL phase.
  bool has_steps() const { return steps > 0 || data_epochs; }
};

/// Response to an alarm (keel/train/health.h).
struct HealthOptions {
  std::string on_alarm = "warn";
  void describe(OptionTable& table);
};

struct CheckpointOptions {
  int64_t every = 100;
  int64_t keep = 2;
  std::string best_metric = "none";
  bool background = true;
  void describe(OptionTable& table);

  bool keeps_best() const { return best_metric != "none"; }
};

struct RecordOptions {
  int64_t samples_per_step = 2;
  int64_t certificate_every = 10;
  bool tensorboard = false;
  bool wandb = false;
  bool mlflow = false;
  std::string tokens = "none";
  void describe(OptionTable& table);
};

/// All settings of a run, one member per section.
struct Config {
  RunOptions run;
  ModelOptions model;
  LoraOptions lora;
  DataOptions data;
  TaskOptions task;
  SftOptions sft;
  RolloutOptions rollout;
  RewardOptions reward;
  ObjectiveOptions objective;
  ReferenceOptions reference;
  CriticOptions critic;
  OptimizerOptions optimizer;
  TrainOptions train;
  HealthOptions health;
  EvalOptions eval;
  CheckpointOptions checkpoint;
  RecordOptions record;

  void describe(OptionTable& table);

  int64_t rollouts_per_step() const { return train.prompts_per_step * rollout.samples_per_prompt; }
  /// Sequences in one update: train.sequences_per_update, or the whole rollout batch if that is 0.
  int64_t sequences_per_update() const;
  /// The number of rollouts that always share an update: all of a prompt, or 1.
  int64_t rollouts_kept_together() const { return train.shuffle == "prompts" ? rollout.samples_per_prompt : 1; }
  int64_t updates_per_step() const { return train.epochs * rollouts_per_step() / sequences_per_update(); }
  /// The number of updates in the first `steps` steps of the RL phase if none is skipped; the learning-rate schedule
  /// depends on it. Updates of the policy begin after critic.warmup_steps. Doubles, because steps may be huge.
  double planned_updates(int64_t steps) const;
  double planned_critic_updates(int64_t steps) const;
  /// AdamW of the supervised phase, with sft.lr or its default.
  OptimizerOptions sft_optimizer() const;
  /// Returns whether the run has an RL phase. Without sft.files it has one even if train.steps is 0.
  bool has_rl() const { return sft.files.empty() || train.has_steps(); }
  /// The maximum number of prompts of an evaluation: eval.prompts, or all rows of files, or 512 of a task.
  int64_t prompts_per_evaluation() const;
};

/// Registers the removed and renamed settings, whose use is an error that names the replacement.
void add_removed_settings(OptionTable& table);

/// Decides between steps and data_epochs of section train or sft. The command line takes precedence over the file. If
/// one source sets both, as config.yaml of a run does, they must agree; this is checked once the data is open.
void resolve_length(const ConfigTree& tree, const std::string& section, int64_t& steps,
                    std::optional<double>& data_epochs);

/// Loads and checks a configuration; notes on settings that do nothing are appended to `notes`.
Config load_config(const ConfigTree& tree, std::vector<std::string>& notes, Purpose purpose = Purpose::kTraining);

/// The name under which a setting was set on the command line; empty if it was not.
std::string command_line_name(const ConfigTree& tree, const std::string& option);

/// Fails (exit code 2) if settings contradict each other.
void check_consistency(const Config& config, Purpose purpose = Purpose::kTraining);

/// The maximum number of tokens of a completion: rollout.max_new_tokens, or the task's limit.
int64_t resolve_max_new_tokens(const Config& config);

/// The number of tokens of the longest prompt among the first problems of a task.
size_t longest_prompt(const Task& task, uint64_t seed,
                      const std::function<std::vector<int32_t>(const std::string& text)>& encode);

/// Fails if a prompt of the task and its completion do not fit into the model's positions.
void check_positions(const Config& config, size_t prompt_tokens, int64_t positions);

/// The settings of examples/quickstart.yaml.
Config quickstart_config();

/// The resolved configuration as a tree and as YAML.
Json to_json(Config config);
std::string to_yaml(Config config, const std::string& heading);

}  // namespace keel
