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

/// Evaluates a run on held-out prompts and rows when that is due, and records the results. It owns the key of the best
/// metric, and borrows the configuration, the policy, the prompts and the run's state, log and watcher.
class Evaluator {
 public:
  /// All references must outlive the evaluator.
  Evaluator(const Config& config, const LoadedModel& policy, PromptSources& prompt_sources, TrainState& state,
            RunLog& log, RunWatcher& watcher);

  /// Held-out prompts are due before the first RL step, every eval.every steps, and after the last step.
  bool due() const;
  /// Returns true if the best checkpoint is kept and this evaluation is the best so far.
  bool evaluate_if_due(const Trainer& trainer);
  /// Held-out SFT rows are due before the first update, every sft.eval_every updates, and after the last update.
  void measure_loss_if_due(SftTrainer& trainer, Demonstrations& demonstrations);

  /// The prompts of an evaluation.
  HeldOutPrompts held_out() { return prompt_sources_.held_out(config_.prompts_per_evaluation()); }
  /// The evaluation key of checkpoint.best_metric; empty without RL.
  const std::string& best_metric() const { return best_metric_; }

 private:
  bool update_best(const Json& metrics);

  const Config& config_;
  const LoadedModel& policy_;
  PromptSources& prompt_sources_;
  TrainState& state_;
  RunLog& log_;
  RunWatcher& watcher_;
  std::string best_metric_;
};

}  // namespace keel
