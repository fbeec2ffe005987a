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
  std::string device = "cpu";
  std::string precision = "auto";
  bool deterministic = false;
  int64_t threads = 0;
  void describe(OptionTable& table);
};

/// Supervised updates before RL, or alone: on rows of one's own files; or on the task's demonstrations, noise-free ones
/// until the loss falls, then, for a while, noisy ones.
struct SftOptions : RowFiles {
  std::string loss_on = "assistant";
  int64_t max_tokens = 0;
  int64_t steps = 0;  // 0 beside data_epochs: not known before the files are open, when plan_steps() finds it
  std::optional<double> data_epochs = {};
  int64_t batch = 32;
  std::optional<double> lr = {};
  OptimizerOptions optimizer{.beta2 = 0.95};  // but for its learning rate
  int64_t eval_every = 0;
  double stop_loss = 0;
  int64_t noisy_steps = 0;
  std::vector<double> noisy_lr = {1e-3, 3e-4};
  void describe(OptionTable& table);

  /// Whether there is a supervised phase at all.
  bool has_steps() const { return steps > 0 || data_epochs; }
};

struct TrainOptions {
  int64_t steps = 100;  // 0 beside data_epochs: not known before the data is open, when plan_steps() finds it
  std::optional<double> data_epochs = {};
  int64_t prompts_per_step = 16;
  int64_t sequences_per_update = 0;
  std::string shuffle = "prompts";
  int64_t epochs = 1;
  int64_t tokens_per_batch = 16384;
  bool mask_truncated = false;
  bool recompute_activations = false;
  void describe(OptionTable& table);

  /// Whether there is an RL phase at all.
  bool has_steps() const { return steps > 0 || data_epochs; }
};

/// What a run does about an alarm (keel/train/health.h).
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

/// Everything a run can be told, one member per section.
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
  /// Sequences in one update; the whole rollout batch when train.sequences_per_update is 0.
  int64_t sequences_per_update() const;
  /// Rollouts that are always in the same update: a prompt's, or each by itself.
  int64_t rollouts_kept_together() const { return train.shuffle == "prompts" ? rollout.samples_per_prompt : 1; }
  int64_t updates_per_step() const { return train.epochs * rollouts_per_step() / sequences_per_update(); }
  /// Of the first `steps` of the RL phase, where every step has all of its own: what the learning rate is planned for,
  /// and where it has come to, also where steps made fewer. The policy's begin after critic.warmup_steps. (As doubles,
  /// since there may be steps without end.)
  double planned_updates(int64_t steps) const;
  double planned_critic_updates(int64_t steps) const;
  /// AdamW of the supervised phase: its learning rate is that of sft, or one that suits what is trained.
  OptimizerOptions sft_optimizer() const;
  /// False where a run imitates files and that is all.
  bool has_rl() const { return sft.files.empty() || train.has_steps(); }
  /// Prompts of an evaluation, at most: of files all rows, unless eval.prompts says otherwise.
  int64_t prompts_per_evaluation() const;
};

/// Names of settings that were removed or renamed.
void add_removed_settings(OptionTable& table);

/// A run's length is said in steps or in passes over the data. What is typed wins over the file; where one place says
/// both, as the file of a run that was started does, they must agree, which is seen when the data is open.
/// `section` is train or sft.
void resolve_length(const ConfigTree& tree, const std::string& section, int64_t& steps,
                    std::optional<double>& data_epochs);

/// Loads and checks a configuration; notes on settings that do nothing are appended to `notes`.
Config load_config(const ConfigTree& tree, std::vector<std::string>& notes, Purpose purpose = Purpose::kTraining);

/// The name under which a setting stands on the command line; empty: it does not.
std::string command_line_name(const ConfigTree& tree, const std::string& option);

/// Settings that contradict each other are refused (exit code 2).
void check_consistency(const Config& config, Purpose purpose = Purpose::kTraining);

/// Tokens after which a completion is cut off: rollout.max_new_tokens, or else the task's own limit.
int64_t resolve_max_new_tokens(const Config& config);

/// Tokens of the longest prompt among the first problems of a task.
size_t longest_prompt(const Task& task, uint64_t seed,
                      const std::function<std::vector<int32_t>(const std::string& text)>& encode);

/// A prompt and its completion must fit into the model; found before the run starts, and not after its warm-up.
void check_positions(const Config& config, size_t prompt_tokens, int64_t positions);

/// The quickstart's settings; examples/quickstart.yaml holds the same.
Config quickstart_config();

/// The resolved configuration as a tree and as YAML.
Json to_json(Config config);
std::string to_yaml(Config config, const std::string& heading);

}  // namespace keel
