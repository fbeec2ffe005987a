#pragma once

#include <string>

#include "keel/model/loaded_model.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/run_log.h"
#include "keel/train/run_watcher.h"
#include "keel/train/sft_trainer.h"
#include "keel/train/start/demonstrations.h"
#include "keel/train/start/prompt_sources.h"
#include "keel/train/trainer.h"

namespace keel {

/// Measures a run on what is held out, when that is due, and records what it finds. It owns the key by which the best
/// evaluation is chosen; it borrows the configuration, the policy, the prompts and the run's state, log and watcher.
class Evaluator {
 public:
  /// All must outlive it.
  Evaluator(const Config& config, const LoadedModel& policy, PromptSources& prompt_sources, TrainState& state,
            RunLog& log, RunWatcher& watcher);

  /// Held-out prompts: before the first RL step, after the last, and every eval.every between.
  bool due() const;
  /// Returns whether this evaluation is the best so far, where the best checkpoint is kept.
  bool evaluate_if_due(const Trainer& trainer);
  /// Held-out rows of section sft: before the first update, after the last, and every sft.eval_every between.
  void measure_loss_if_due(SftTrainer& warm_up, Demonstrations& demonstrations);

  /// The prompts of an evaluation.
  HeldOutPrompts held_out() { return prompt_sources_.held_out(config_.prompts_per_evaluation()); }
  /// The key that checkpoint.best_metric stands for; empty without RL.
  const std::string& best_metric() const { return best_metric_; }

 private:
  bool note_best(const Json& metrics);

  const Config& config_;
  const LoadedModel& policy_;
  PromptSources& prompt_sources_;
  TrainState& state_;
  RunLog& log_;
  RunWatcher& watcher_;
  std::string best_metric_;
};

}  // namespace keel
