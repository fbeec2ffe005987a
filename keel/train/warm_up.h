#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/model/loaded_model.h"
#include "keel/task/task.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/metrics/step_row.h"
#include "keel/train/step_watcher.h"

namespace keel {

/// The supervised warm-up on a task's demonstrations: every target has the coefficient 1, so that the gradient is that
/// of the mean log-likelihood.
class WarmUp {
 public:
  /// Everything must outlive it.
  WarmUp(const Config& config, const LoadedModel& policy, const Task& task);

  /// One update.
  WarmUpNumbers step(TrainState& state, StepWatcher& watcher);

  /// Between steps: which demonstrations come next. What to tell where the noise-free ones did not teach what they
  /// should have.
  std::optional<std::string> choose_demonstrations(TrainState& state) const;

  bool done(const TrainState& state) const;

  /// The optimizer's moments.
  std::vector<NamedTensor> optimizer_state() const { return optimizer_.state(); }
  void load_optimizer(const std::vector<NamedTensor>& state, const std::string& place) {
    optimizer_.load(state, place);
  }

 private:
  const Config& config_;
  const LoadedModel& policy_;
  const Task& task_;
  Optimizer optimizer_;
};

}  // namespace keel
