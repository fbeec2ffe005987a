#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "keel/core/data_identity.h"
#include "keel/core/json.h"
#include "keel/core/thresholds.h"

namespace keel {

enum class Phase { kSft, kRl, kDone };

/// The mean reward of consecutive steps.
struct RewardWindow {
  int64_t steps = 0, prompts = 0;  // prompts: with a reward
  double mean = 0;                 // over the prompts

  void add(double reward_mean, int64_t scored_prompts);
};

/// Consecutive steps with each sign of bad training (keel/train/health.h).
struct HealthCounts {
  int64_t low_entropy = 0, equal_rewards = 0, all_truncated = 0, high_mismatch = 0;
  int64_t reward_steps = 0;  // in the current window of rewards
  double reward_sum = 0;     // of their mean rewards
  double best_reward = 0;    // maximum mean reward of a window so far, at least 0
  int64_t early_steps = 0;   // steps checked for an early collapse
  RewardWindow first_step = {}, first_rewards = {}, recent_rewards = {};
  double min_reward = 0, max_reward = 0;  // of 0 and all early completions so far
};

/// Progress of the supervised phase.
struct SftState {
  int64_t steps = 0;
  int64_t noisy_steps = 0;                      // steps on noisy demonstrations
  bool noisy = false;                           // whether the next demonstrations are noisy
  std::optional<double> loss_average = {};      // moving average; none before the first update
  uint64_t position = 0;                        // in the rows of sft.files, over all epochs
  int64_t rows = 0;                             // rows trained on
  DataIdentity data = {};                       // sft.files and sft.eval_files
  std::optional<int64_t> last_evaluation = {};  // the step of the last held-out loss
};

/// Progress of the RL phase. Run writes health, Evaluator last_evaluation, open_run() data, and
/// Trainer all other fields.
struct RlState {
  int64_t steps = 0;
  int64_t updates = 0;                        // attempted policy updates, including skipped ones; seeds the dropout
  uint64_t prompt_position = 0;               // in the prompt stream where the next step begins
  std::optional<Thresholds> thresholds = {};  // of an adaptive trust region, once they have changed
  std::optional<double> kl_coefficient = {};  // of an adaptive reward KL, once it has changed
  HealthCounts health = {};
  DataIdentity data = {};                       // data.files and data.eval_files
  std::optional<int64_t> last_evaluation = {};  // the step of the last evaluation
};

/// The best evaluation so far, whose checkpoint is kept.
struct BestEvaluation {
  std::string metric = {};
  double value = 0;
  int64_t step = 0;
};

/// Progress of a run. Together with the weights, the optimizer state and the configuration, it is sufficient to resume
/// with bitwise equal results. It owns all values.
struct TrainState {
  Phase phase = Phase::kSft;
  int64_t updates = 0;                         // optimizer updates done, over all phases
  int64_t skipped = 0;                         // updates skipped for a non-finite gradient
  int64_t skipped_in_a_row = 0;                // consecutive; an overflow neither counts nor resets it
  std::optional<uint32_t> base_checksum = {};  // of the model that the run starts from; none for random weights
  std::optional<BestEvaluation> best = {};
  SftState sft = {};
  RlState rl = {};

  /// Completed steps, over all phases.
  int64_t step() const { return sft.steps + rl.steps; }

  /// Counts an update in skipped and skipped_in_a_row. `skipped_update`: its gradient was not finite. `overflowed`: a
  /// smaller loss scale may fix it.
  void count_update(bool skipped_update, bool overflowed = false);

  /// Updates `best` from an evaluation's row and the key of best_metric_key(). Returns whether it is better than all
  /// previous ones; of equal ones the first stays the best. Ignores rows without that number.
  bool update_best(const Json& row, const std::string& metric);
};

/// Converts to one flat object, with null for missing values.
Json to_json(const TrainState& state);
TrainState state_from_json(const Json& json, const std::string& path);

}  // namespace keel
