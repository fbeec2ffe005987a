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

/// Supervised fine-tuning on demonstrations from files or from a task: maximises the mean log-likelihood of the
/// targets. It owns the optimizer and the masters, and borrows the configuration, the policy and the demonstrations.
class SftTrainer {
 public:
  /// All references except `masters` must outlive this.
  SftTrainer(const Config& config, const LoadedModel& policy, const MasterWeights& masters,
             Demonstrations& demonstrations);

  /// Makes one update on the sequences of Demonstrations::next().
  SftMetrics step(const std::vector<SupervisedSequence>& sequences, TrainState& state, StepWatcher& watcher);

  /// Returns the mean loss over all targets of the held-out rows; none if there are none. Throws Interrupted if a stop
  /// is requested.
  std::optional<SftEvalLoss> held_out_loss();

  /// Switches a task to noisy demonstrations once the clean ones are learned or used up. Returns a warning if they were
  /// used up above sft.stop_loss.
  std::optional<std::string> maybe_switch_to_noisy(TrainState& state) const;

  bool done(const TrainState& state) const { return demonstrations_.done(config_.sft, state.sft); }

  const MasterWeights& masters() const { return optimizer_.masters(); }
  /// The state of the optimizer.
  std::vector<NamedTensor> optimizer_state() const { return optimizer_.state(); }
  void load_optimizer(const std::vector<NamedTensor>& state, const std::string& path) { optimizer_.load(state, path); }

 private:
  double learning_rate(const TrainState& state) const;

  const Config& config_;
  const CausalLm network_;
  Demonstrations& demonstrations_;
  OptimizerOptions options_;
  Optimizer optimizer_;
};

}  // namespace keel
