#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/record/run_folder.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/checkpoint_writer.h"
#include "keel/train/config/config.h"
#include "keel/train/evaluator.h"
#include "keel/train/open_run.h"
#include "keel/train/run_log.h"
#include "keel/train/run_watcher.h"
#include "keel/train/sft_trainer.h"
#include "keel/train/start/prompt_sources.h"
#include "keel/train/trainer.h"

namespace keel {

/// A run from its start to its end, which may lie in another process: supervised updates, evaluation, RL, evaluation,
/// or the first of these alone. It owns the policy, the data, the folder, the state, and the parts that train (a
/// SftTrainer, then a Trainer), evaluate, log and save; it borrows the console.
class Run {
 public:
  /// A new run in config.run.dir; an existing one is refused unless `replace`.
  static std::unique_ptr<Run> start(const Config& config, bool replace, Console& console);

  /// The run in config.run.dir goes on from its newest sound checkpoint.
  static std::unique_ptr<Run> resume(const Config& config, Console& console, const AcceptedChanges& accepted = {});

  /// Goes on to the end (kDone) or until someone asks to stop (kInterrupted); both leave a checkpoint.
  ExitCode run();

  const LoadedModel& policy() const { return policy_; }
  const PromptSources& prompt_sources() const { return prompt_sources_; }
  const Demonstrations& demonstrations() const { return demonstrations_; }
  /// As it is carried out: with the lengths that passes over the data stand for.
  const Config& config() const { return config_; }
  /// What an evaluation is made on.
  HeldOutPrompts held_out() { return evaluator_.held_out(); }
  Objective objective() const { return current_objective(config_, state_.rl); }
  /// These two follow a folder that was moved.
  std::filesystem::path folder() const { return folder_.current_path(); }
  std::filesystem::path last_checkpoint() const;

 private:
  Run(OpenedRun opened, Console& console);
  Run(const Run&) = delete;  // its parts refer to each other

  void begin(Phase phase, AuxiliaryWeights saved = {});
  ExitCode run_to_the_end();
  std::string saved_after_failure();
  ExitCode run_phases();
  bool warm_up();
  bool learn();
  void warm_up_step();
  void rl_step();
  void look_after_health(const StepMetrics& metrics);
  void self_test();
  void record_step(const char* phase, Json metrics, double seconds);

  void save(SaveMode how = SaveMode::kNow);
  Checkpoint checkpoint() const;
  bool saved_for_interrupt();

  Config config_;
  Console& console_;
  LoadedModel policy_;
  PromptSources prompt_sources_;
  Demonstrations demonstrations_;
  RunFolder folder_;
  Trackers trackers_;
  RunLog log_;
  TrainState state_;
  RunWatcher watcher_;
  std::string id_;
  std::optional<SftTrainer> warm_up_;  // in the supervised phase, and behind it where that is all
  std::optional<Trainer> trainer_;     // after it
  Evaluator evaluator_;
  double checkpoint_seconds_ = 0;  // that the run waited for saves, reported with the next step
  CheckpointWriter checkpoints_;   // last: its save under way is waited for before all else ends
};

}  // namespace keel
