#pragma once

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/record/run_folder.h"
#include "keel/train/checkpoint/save.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/open_run.h"
#include "keel/train/resume.h"
#include "keel/train/run_log.h"
#include "keel/train/run_watcher.h"
#include "keel/train/start/problems.h"
#include "keel/train/trainer.h"
#include "keel/train/warm_up.h"

namespace keel {

/// A run from its start to its end, which may lie in another process: supervised updates, evaluation, RL, evaluation,
/// or the first of these alone; its folder, what it writes and says there, its checkpoints. What learns are a WarmUp
/// and then a Trainer.
class Run {
 public:
  /// A new run in config.run.dir; an existing one is refused unless `replace`.
  static std::unique_ptr<Run> start(const Config& config, bool replace, Console& console);

  /// The run in config.run.dir goes on from its newest sound checkpoint.
  static std::unique_ptr<Run> resume(const Config& config, Console& console, const AcceptedChanges& accepted = {});

  /// Goes on to the end (kDone) or until someone asks to stop (kInterrupted); both leave a checkpoint.
  ExitCode run();

  const LoadedModel& policy() const { return policy_; }
  const Problems& problems() const { return problems_; }
  const Demonstrations& demonstrations() const { return demonstrations_; }
  /// As it is carried out: with the lengths that passes over the data stand for.
  const Config& config() const { return config_; }
  /// What an evaluation is made on.
  HeldOut held_out() { return problems_.held_out(config_.prompts_per_evaluation()); }
  Objective objective() const { return objective_at(config_, state_.rl); }
  /// These two follow a folder that was moved.
  std::filesystem::path folder() const { return folder_.current_path(); }
  std::filesystem::path last_checkpoint() const;

 private:
  Run(OpenedRun opened, Console& console);
  Run(const Run&) = delete;  // its parts refer to each other

  void begin(Phase phase, Companions saved = {});
  void look_for_best();
  ExitCode run_to_the_end();
  std::string saved_after_failure();
  ExitCode run_phases();
  bool warm_up();
  bool learn();
  void warm_up_step();
  void measure_loss_if_due();
  void rl_step();
  void look_after_health(const StepNumbers& numbers);
  void self_test();
  bool evaluate_if_due();
  bool evaluation_due() const;
  Json row_of(const char* phase) const;
  void record_step(const char* phase, const Json& numbers, double seconds);
  void add_metrics(const Json& row);

  bool checkpoint_due() const;
  enum class Saving { kNow, kBesideSteps };
  void save(Saving how = Saving::kNow);
  Save next_save();
  bool copied(Checkpoint& checkpoint);
  void wait_for_save();
  void note_saved(const Saved& saved);
  void require_finite_weights() const;
  void note_finished_save();
  bool saved_for_interrupt();
  std::string resume_command() const;
  std::string what_is_left();

  Config config_;
  Console& console_;
  LoadedModel policy_;
  Problems problems_;
  Demonstrations demonstrations_;
  RunFolder folder_;
  Trackers trackers_;
  RunLog log_;
  TrainState state_;
  RunWatcher watcher_;
  std::string id_;
  std::optional<WarmUp> warm_up_;   // in the supervised phase, and behind it where that is all
  std::optional<Trainer> trainer_;  // after it
  double checkpoint_seconds_ = 0;   // that the run waited for saves, reported with the next step
  double write_seconds_ = 0;        // that their writes took, whoever waited
  std::filesystem::path last_checkpoint_;
  Json saved_state_;         // that this process saved last
  std::string best_metric_;  // the key that checkpoint.best_metric stands for
  std::chrono::steady_clock::time_point reported_at_ = std::chrono::steady_clock::now();
  bool told_of_report_ = false;  // that there cannot be one
  int64_t copied_bytes_ = 0;     // of the largest copy; the memory's peak has it in it
  bool told_of_memory_ = false;  // that a copy has no room in it
  std::future<Saved> writing_;   // the save under way; last, to be waited for before all else ends
};

}  // namespace keel
