#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "keel/core/data_identity.h"
#include "keel/core/json.h"
#include "keel/core/thresholds.h"

namespace keel {

enum class Phase { kSft, kRl, kDone };

/// For how many steps in a row something has not been as it should (keel/train/health.h).
struct HealthCounts {
  int64_t low_entropy = 0, equal_rewards = 0, all_truncated = 0, high_mismatch = 0;
  int64_t reward_steps = 0;  // of the window of rewards that is being filled
  double reward_sum = 0;     // of their mean rewards
  double best_reward = 0;    // the largest mean of a window so far, at least 0
};

/// Progress of the supervised phase.
struct SftState {
  int64_t steps = 0;
  int64_t noisy_steps = 0;                      // steps on noisy demonstrations
  bool noisy = false;                           // whether noisy demonstrations come next
  std::optional<double> loss_average = {};      // moving average; none before the first update
  uint64_t position = 0;                        // in the rows of sft.files, over all passes
  int64_t rows = 0;                             // rows trained on
  DataIdentity data = {};                       // sft.files and sft.eval_files
  std::optional<int64_t> last_evaluation = {};  // the step of the last held-out loss
};

/// Progress of the RL phase. The trainer reads and writes it here; Run writes health and adapter_apart, Evaluator
/// last_evaluation, opening a run data.
struct RlState {
  int64_t steps = 0;
  int64_t updates = 0;                        // of the policy, skipped ones included: keys of dropout
  uint64_t prompts = 0;                       // position in the prompt stream where the next step begins
  std::optional<Thresholds> thresholds = {};  // of an adaptive trust region, once they moved
  std::optional<double> kl_coefficient = {};  // of an adaptive KL in the rewards, once it moved
  HealthCounts health = {};
  bool adapter_apart = false;                   // the sampler does not merge the adapter: merged, the self-test failed
  DataIdentity data = {};                       // data.files and data.eval_files
  std::optional<int64_t> last_evaluation = {};  // the step of the last evaluation
};

/// The evaluation whose checkpoint is kept.
struct BestEvaluation {
  std::string metric = {};
  double value = 0;
  int64_t step = 0;
};

/// Progress of a run: with the weights, the optimizer's moments and the configuration, all that is needed to continue
/// to the same bits. It owns every number and borrows nothing.
struct TrainState {
  Phase phase = Phase::kSft;
  int64_t updates = 0;                         // optimizer updates done, over all phases
  int64_t skipped = 0;                         // updates skipped for a non-finite gradient
  int64_t skipped_in_a_row = 0;                // except those that a smaller loss scale may fix
  std::optional<uint32_t> base_checksum = {};  // of the model that the run starts from; none: random weights
  std::optional<BestEvaluation> best = {};
  SftState sft = {};
  RlState rl = {};

  /// Steps done, over all phases.
  int64_t step() const { return sft.steps + rl.steps; }

  /// Counts an update in skipped and skipped_in_a_row: a non-finite gradient skipped it, unless `made`. `overflowed`: a
  /// smaller loss scale may fix it.
  void count_skipped(bool made, bool overflowed = false);

  /// Notes the row of an evaluation of this step, by the key that best_metric_key() gives, and tells whether it is
  /// better than all before: of equal ones the first stays the best. A row without a number there is not compared.
  bool update_best(const Json& row, const std::string& metric);
};

/// One flat object; null where a value is none.
Json to_json(const TrainState& state);
TrainState state_from_json(const Json& json, const std::string& place);

}  // namespace keel
