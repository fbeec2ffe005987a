#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/files/locked_directory.h"
#include "keel/core/json.h"
#include "keel/record/checksummed_file.h"
#include "keel/record/tools/event_file.h"

namespace keel {

/// The run folder or its rows were removed or are not writable (exit code 4).
class RunWriteError : public Error {
 public:
  explicit RunWriteError(const std::string& message) : Error(ExitCode::kHealthGuard, message) {}
};

/// The files that a run writes: metrics.jsonl, samples.jsonl, log.txt, config.yaml and used.json. The folder is locked;
/// if it is moved, the run continues to write to the moved folder.
class RunFolder {
 public:
  /// The first line of config.yaml. It, or the id in used.json, marks a run folder.
  static constexpr std::string_view kConfigHeading = "The full, resolved configuration of this run.";

  /// Returns whether the folder contains a run. A config.yaml of the user alone does not count.
  static bool contains_run(const std::filesystem::path& path);
  /// Returns whether the folder contains a run without a checkpoint and without a report.
  static bool is_unsaved(const std::filesystem::path& path);
  /// Returns whether the file belongs to a run, its checkpoints or its token records. Follows links.
  static bool belongs_to_run(const std::filesystem::path& path);
  /// Throws an Error (exit code 2) if the file belongs to a run.
  static void require_outside_run(const std::filesystem::path& path);
  /// Returns whether the folder contains a run that create() replaces: an unsaved one, or any with `replace`. Throws an
  /// Error (exit code 2) for other non-empty folders.
  static bool require_free(const std::filesystem::path& path, bool replace);

  /// Creates a run in a folder that require_free() accepts. Removes an existing run, but no other files.
  static RunFolder create(const std::filesystem::path& path, bool replace, std::string_view config_yaml);

  /// Locks a run for this process. Throws an Error (exit code 2) if another process holds the lock.
  static LockedDirectory lock(const std::filesystem::path& path);

  /// The checksums of the append-only files, for checkpoints.
  struct Checksums {
    LineChecksums metrics, samples, log;
  };

  /// Reopens a run at a checkpoint: removes later rows and writes the new config.yaml. Changed rows are dropped and the
  /// old file is kept as a copy; a changed log is continued. `notes` gets a message for both.
  static RunFolder reopen(LockedDirectory directory, const Checksums& checksums, std::string_view config_yaml,
                          std::vector<std::string>& notes);

  /// Writes used.json: the settings for the report, and the run's id. Returns a message for each reward file that
  /// changed since the last start of the run.
  std::vector<std::string> record_used_settings(Json settings, const std::string& run) const;

  /// Runs an action that writes into the folder. Converts any Error into a RunWriteError.
  void write(const std::function<void()>& action) const;

  /// Appends a row with a time stamp, without NaN and infinity, and returns its line. Throws RunWriteError if it cannot
  /// be written, or if earlier rows were removed or replaced.
  std::string add_metrics(const Json& row);
  void add_sample(const Json& row);
  /// Also writes metrics to a TensorBoard event file in RUN/tensorboard from now on. The file is recreated from the
  /// existing rows of metrics.jsonl and replaces older ones.
  void write_events();
  /// Returns a function that appends a line to log.txt. It may outlive this object.
  std::function<void(std::string_view line)> log_writer() const;

  /// Returns after everything added is on the disk.
  Checksums sync();

  const std::filesystem::path& path() const { return directory_.path(); }
  /// Returns the current path of the folder, for messages; path() after a removal.
  std::filesystem::path current_path() const { return directory_.current_path().value_or(path()); }
  std::filesystem::path checkpoints() const { return path() / "checkpoints"; }
  std::filesystem::path tokens() const { return path() / "tokens"; }
  /// Removes the token records of later steps, and partial files.
  void remove_tokens_after(int64_t step) const;

 private:
  RunFolder(LockedDirectory directory, std::string_view config_yaml);
  void require_files_in_place() const;

  LockedDirectory directory_;
  std::string config_yaml_;
  ChecksummedFile metrics_, samples_;
  std::shared_ptr<ChecksummedFile> log_;  // shared with log_writer()
  std::optional<EventFile> events_;
};

}  // namespace keel
