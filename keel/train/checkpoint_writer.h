#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "keel/core/console.h"
#include "keel/core/json.h"
#include "keel/record/run_folder.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/run_log.h"

namespace keel {

/// kBlocking: save() returns when the checkpoint is on disk. kInBackground: save() returns when the checkpoint is
/// copied; another thread writes it, and the next wait() fails if the write failed.
enum class SaveMode { kBlocking, kInBackground };

/// Writes the checkpoints of a run. It owns the save in progress and the path of the last checkpoint, and borrows the
/// configuration, the run's folder, the log and the console.
class CheckpointWriter {
 public:
  /// All references must outlive the writer. `last` is the checkpoint that the run was resumed from; empty for a new
  /// run.
  CheckpointWriter(const Config& config, RunFolder& folder, RunLog& log, Console& console, std::filesystem::path last)
      : config_(config), folder_(folder), log_(log), console_(console), last_(std::move(last)) {}

  bool due(int64_t step) const { return config_.checkpoint.every > 0 && step % config_.checkpoint.every == 0; }

  /// Waits for the save in progress, then saves the result of `collect`.
  void save(const std::function<Checkpoint()>& collect, SaveMode mode);
  /// Waits for the save in progress, if any.
  void wait();
  /// Records the result of the save in progress if it has ended.
  void wait_if_ended();

  /// The last checkpoint; empty before the first.
  const std::filesystem::path& last() const { return last_; }
  /// Returns whether the last checkpoint has this state and is still on disk.
  bool last_has_state(const TrainState& state) const;
  /// Returns the seconds that writes took since the last call.
  double take_write_seconds() { return std::exchange(write_seconds_, 0); }

  /// Warns if a resumed run has lost its best checkpoint (then state.best is cleared), or keeps it although `metric`
  /// chooses another now.
  void check_best(TrainState& state, const std::string& metric);

  std::string resume_command() const;
  /// After a failed write: describes the last complete checkpoint, the lost steps, and how to continue.
  std::string describe_recovery(int64_t step);

 private:
  /// The result of a save.
  struct SaveResult {
    std::filesystem::path checkpoint;
    double seconds = 0;                              // of the write
    std::optional<std::string> report_failure = {};  // for example, damaged rows
  };
  void record(const SaveResult& result);
  bool try_copy(Checkpoint& checkpoint);

  const Config& config_;
  RunFolder& folder_;
  RunLog& log_;
  Console& console_;
  std::filesystem::path last_;
  Json last_state_;           // the last state that this process saved
  double write_seconds_ = 0;  // since take_write_seconds()
  std::chrono::steady_clock::time_point reported_at_ = std::chrono::steady_clock::now();
  bool warned_of_report_ = false;    // the report could not be written
  int64_t copied_bytes_ = 0;         // of the largest copy, which is part of the peak memory
  bool warned_of_memory_ = false;    // a copy does not fit into memory
  std::future<SaveResult> writing_;  // the save in progress
};

}  // namespace keel
