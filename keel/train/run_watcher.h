#pragma once

#include <optional>
#include <string>

#include "keel/model/loaded_model.h"
#include "keel/record/run_folder.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/metrics/sample_recorder.h"
#include "keel/train/metrics/token_records.h"
#include "keel/train/run_log.h"
#include "keel/train/step_watcher.h"
#include "keel/train/trackers.h"

namespace keel {

/// Logs the events of a run's steps, and writes their metrics, samples and token records. It owns the samples and
/// records of the current step, and borrows the configuration, the policy, the run's state, folder, trackers and log.
class RunWatcher : public StepWatcher {
 public:
  /// All references must outlive the watcher.
  RunWatcher(const Config& config, const LoadedModel& policy, const TrainState& state, RunFolder& folder,
             Trackers& trackers, RunLog& log)
      : config_(config), policy_(policy), state_(state), folder_(folder), trackers_(trackers), log_(log) {}

  bool collecting = false;  // the step prepares its data, and a checkpoint would hold the state of the previous step
  std::string trained_on;   // data of the current step, for the log: "prompts 16 to 32"

  /// Writes the step's samples and token records; called after the state has counted the step.
  void write(const Experience& experience);
  /// Adds a row with the phase, the step and update counts, and these metrics.
  void add_metrics(const char* phase, const Json& metrics);
  void add_sample(const Json& sample) { folder_.add_sample(sample); }

  void on_skipped_rows(const SkippedCounts& rows) override { log_.skipped_rows(rows); }
  void on_warning(const std::string& text) override { log_.warning(text); }
  void on_scored(const ScoreReport& report, size_t completions) override;
  void on_experience(const Experience& experience) override;
  void on_tokens(const TokenUpdate& tokens, std::span<const int64_t> minibatch) override;
  void on_gradients(std::span<const int64_t> minibatch) override;
  void on_skipped_update(bool overflowed) override;

 private:
  void record_tokens(const Experience& experience);

  const Config& config_;
  const LoadedModel& policy_;
  const TrainState& state_;
  RunFolder& folder_;
  Trackers& trackers_;
  RunLog& log_;
  std::optional<SampleRecorder> samples_;  // of the current step
  std::optional<TokenRecords> records_;    // of the current step, if its tokens are recorded
  Json header_;                            // of records_: settings that determine the loss
};

}  // namespace keel
