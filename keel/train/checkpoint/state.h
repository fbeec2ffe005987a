#pragma once

#include <cstdint>
#include <string>

#include "keel/core/json.h"

namespace keel {

enum class Phase { kSft, kRl, kDone };

/// For how many steps in a row something has not been as it should (keel/train/health.h).
struct HealthCounts {
  int64_t low_entropy = 0, equal_rewards = 0, all_truncated = 0, high_mismatch = 0;
  int64_t reward_steps = 0;  // of the window of rewards that is being filled
  double reward_sum = 0;     // of their mean rewards
  double best_reward = 0;    // the largest mean of a window so far; 0 where none was above
};

/// Where a run stands: with the weights, the optimizer's moments and the configuration, all that is needed to go on to
/// the same bits.
struct TrainState {
  Phase phase = Phase::kSft;
  int64_t step = 0;                      // steps done, over all phases
  int64_t updates = 0;                   // optimizer updates done, over all phases
  int64_t rl_steps = 0;                  // steps done in the RL phase
  int64_t rl_updates = 0;                // updates done in the RL phase; drives the learning rate
  int64_t critic_updates = 0;            // the same of the critic
  uint64_t prompts = 0;                  // position of the prompt stream
  int64_t skipped = 0;                   // updates skipped for a non-finite gradient
  int64_t skipped_in_a_row = 0;          // but for those that a smaller loss scale may have saved
  int64_t last_evaluation = -1;          // the step of the last evaluation
  double delta_low = 0, delta_high = 0;  // thresholds of an adaptive trust region; 0: those of the configuration
  double reward_kl_coefficient = 0;      // beta of a KL in the rewards that moves; 0: that of the configuration
  HealthCounts health = {};
  std::string data = {};         // fingerprint of the files that prompts come from; empty: there are none
  uint64_t data_rows = 0;        // in those files
  std::string eval_data = {};    // fingerprint of the files to evaluate on; empty: there are none
  uint32_t base_checksum = 0;    // of the model that the run starts from; 0: it was made from nothing
  bool adapter_apart = false;    // the sampler applies it as training does: merged, the self-test failed
  std::string best_metric = {};  // by which the best evaluation is chosen; empty: there was none to choose from
  double best_value = 0;         // of it
  int64_t best_step = -1;        // of it: the checkpoint that is kept; below 0: none

  // The warm-up.
  int64_t sft_steps = 0;
  int64_t noisy_steps = 0;           // of those, on noisy demonstrations
  bool noisy = false;                // which kind comes next
  double loss_average = -1;          // moving average; below 0 before the first step
  uint64_t sft_position = 0;         // in the rows of sft.files, over all passes
  int64_t sft_rows = 0;              // of them that were learned from
  std::string sft_data = {};         // fingerprint of those files; empty: there are none
  uint64_t sft_data_rows = 0;        // in them
  std::string sft_eval_data = {};    // fingerprint of sft.eval_files
  int64_t last_sft_evaluation = -1;  // the step at which the loss was last measured on rows kept for it

  /// Counts an update that was made, or one that was skipped because a gradient was not finite, which a loss scale may
  /// have made overflow.
  void count_update(bool made, bool overflowed = false);

  /// Notes the row of an evaluation of this step, by the key that best_metric_key() gives, and tells whether it is
  /// better than all before: of equal ones the first stays the best. A row without a number there is not compared.
  bool note_evaluation(const Json& row, const std::string& metric);
};

Json to_json(const TrainState& state);
TrainState state_from_json(const Json& json, const std::string& place);

}  // namespace keel
