#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "keel/model/loaded_model.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/metrics/step_metrics.h"
#include "keel/train/start/demonstrations.h"
#include "keel/train/step_watcher.h"

namespace keel {

/// Supervised updates on demonstrations, of files or of a task: every target has the coefficient 1, so that the
/// gradient is that of the mean log-likelihood. It owns the optimizer and with it the masters; it borrows the
/// configuration, the policy and the demonstrations.
class SftTrainer {
 public:
  /// Everything but `masters`, which are shared, must outlive it.
  SftTrainer(const Config& config, const LoadedModel& policy, const MasterWeights& masters,
         Demonstrations& demonstrations);

  /// One update, on what Demonstrations::next() gave.
  SftMetrics step(const std::vector<SupervisedSequence>& sequences, TrainState& state, StepWatcher& watcher);

  /// The mean over all targets of the rows that are kept for it. Nothing where there are none; Interrupted when someone
  /// asks to stop.
  std::optional<SftEvalLoss> held_out_loss();

  /// Between steps, of a task: which demonstrations come next. What to tell where the noise-free ones did not teach
  /// what they should have.
  std::optional<std::string> choose_demonstrations(TrainState& state) const;

  bool done(const TrainState& state) const { return demonstrations_.done(config_.sft, state.sft); }

  const MasterWeights& masters() const { return optimizer_.masters(); }
  /// The optimizer's moments.
  std::vector<NamedTensor> optimizer_state() const { return optimizer_.state(); }
  void load_optimizer(const std::vector<NamedTensor>& state, const std::string& place) {
    optimizer_.load(state, place);
  }

 private:
  double learning_rate(const TrainState& state) const;

  const Config& config_;
  const CausalLm network_;
  Demonstrations& demonstrations_;
  OptimizerOptions options_;
  Optimizer optimizer_;
};

}  // namespace keel
