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

/// A training run: SFT, evaluation, RL, evaluation, or SFT alone. A later process can resume it. It owns the policy,
/// the data, the folder, the state, and the parts that train (an SftTrainer, then a Trainer), evaluate, log and save;
/// it borrows the console.
class Run {
 public:
  /// Starts a new run in config.run.dir. Fails for an existing run unless `replace`.
  static std::unique_ptr<Run> start(const Config& config, bool replace, Console& console);

  /// Resumes the run in config.run.dir from its newest valid checkpoint.
  static std::unique_ptr<Run> resume(const Config& config, Console& console, const AcceptedChanges& accepted = {});

  /// Runs to the end (kDone) or until a stop is requested (kInterrupted); saves a checkpoint in both cases.
  ExitCode run();

  /// The steps of all phases so far, also those before a resumption.
  int64_t step() const { return state_.step(); }
  /// Whether all steps were trained. True before run() if the resumed run had ended.
  bool is_done() const { return state_.phase == Phase::kDone; }
  const LoadedModel& policy() const { return policy_; }
  const PromptSources& prompt_sources() const { return prompt_sources_; }
  const Demonstrations& demonstrations() const { return demonstrations_; }
  /// The resolved configuration, with data_epochs converted to steps.
  const Config& config() const { return config_; }
  /// The prompts of an evaluation.
  HeldOutPrompts held_out() { return evaluator_.held_out(); }
  Objective objective() const { return current_objective(config_, state_.rl); }
  /// The current paths, also after the run's folder was moved.
  std::filesystem::path folder() const { return folder_.current_path(); }
  std::filesystem::path last_checkpoint() const;

 private:
  Run(OpenedRun opened, Console& console);
  Run(const Run&) = delete;  // its parts refer to each other

  void begin_phase(Phase phase, AuxiliaryWeights saved = {});
  ExitCode run_until_done();
  std::string save_after_failure();
  ExitCode run_phases();
  bool run_sft();
  bool run_rl();
  void sft_step();
  void rl_step();
  void check_health(const StepMetrics& metrics);
  void check_logprobs();
  void record_step(const char* phase, Json metrics, double seconds);

  void save(SaveMode mode = SaveMode::kBlocking);
  Checkpoint checkpoint() const;
  bool save_if_stopped();

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
  std::optional<SftTrainer> sft_trainer_;  // until RL begins; without RL also after the end
  std::optional<Trainer> trainer_;         // from the beginning of RL
  Evaluator evaluator_;
  double checkpoint_seconds_ = 0;  // time blocked by saves, reported with the next step
  CheckpointWriter checkpoints_;   // last member: its destructor waits for the save in progress
};

}  // namespace keel
