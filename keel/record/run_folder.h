#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/files/locked_directory.h"
#include "keel/core/json.h"
#include "keel/record/growing_file.h"
#include "keel/record/tools/event_file.h"

namespace keel {

/// A run's folder or its rows were removed, or cannot be written to (exit code 4).
class RunWriteError : public Error {
 public:
  explicit RunWriteError(const std::string& message) : Error(ExitCode::kHealthGuard, message) {}
};

/// The files that a run writes: metrics.jsonl, samples.jsonl, log.txt, config.yaml and used.json. The folder is locked:
/// when it is moved, the run writes to the moved one, and never to what has its old name then.
class RunFolder {
 public:
  /// The first line of a run's config.yaml: by it, or by the id in used.json, a folder is known to hold a run.
  static constexpr std::string_view kConfigHeading = "The full, resolved configuration of this run.";

  /// Whether a run is in the folder: one's own config.yaml does not make it a run's.
  static bool contains_run(const std::filesystem::path& path);
  /// Whether a run wrote this file, or it is among a run's checkpoints or records; links are followed.
  static bool belongs_to_run(const std::filesystem::path& path);
  /// Refuses (exit code 2) to write a file there.
  static void require_outside_run(const std::filesystem::path& path);
  /// Refuses (exit code 2) a folder that is taken, unless `replace` is set and it holds a run.
  static void require_free(const std::filesystem::path& path, bool replace);

  /// A new run, in a folder that require_free() accepts; a run that is there is removed. Other files stay.
  static RunFolder create(const std::filesystem::path& path, bool replace, std::string_view config_yaml);

  /// Locks an existing run for this process; one that another process has locked is refused (exit code 2).
  static LockedDirectory lock(const std::filesystem::path& path);

  /// The growing files, as a checkpoint remembers them.
  struct Lines {
    LineChecksums metrics, samples, log;
  };

  /// A run that goes on from a checkpoint: what was written after it is cut off, and config.yaml says what holds from
  /// now on (more steps, another interval of saving). Of rows that were changed the others stay, and the file as it was
  /// is kept; a log is nobody's data, and goes on as it is. Both are told in `notes`.
  static RunFolder reopen(LockedDirectory directory, const Lines& lines, std::string_view config_yaml,
                          std::vector<std::string>& notes);

  /// Writes down what the run is made of, for its report, and its id (find_run_id()). Returns what there is to say of
  /// files that rewards come from and that are others than when the run was last started.
  std::vector<std::string> record_used_settings(Json settings, const std::string& run) const;

  /// Writes something into the folder. Any Error becomes a RunWriteError, which says so if the folder was removed.
  void write(const std::function<void()>& action) const;

  /// Adds a row; members that are not finite numbers are left out, for JSON has no word for them. A failure is a
  /// RunWriteError, and so are rows that were removed or replaced. Metrics also say when they were added, and their
  /// line is returned as it was written.
  std::string add_metrics(const Json& row);
  void add_sample(const Json& row);
  /// From here on metrics go to an event file of TensorBoard's as well, RUN/tensorboard. It is made anew from the rows
  /// that there are and takes the place of older ones: metrics.jsonl says what happened, and this what it says.
  void write_events();
  /// What could steer a terminal becomes visible.
  void log(std::string_view line);

  /// Everything added so far is on the disk when this returns.
  Lines sync();

  const std::filesystem::path& path() const { return directory_.path(); }
  /// Returns where the folder is now, for messages; path() after a removal.
  std::filesystem::path current_path() const { return directory_.current_path().value_or(path()); }
  std::filesystem::path checkpoints() const { return path() / "checkpoints"; }
  std::filesystem::path tokens() const { return path() / "tokens"; }
  /// Removes the token records of later steps, which will be made again, and what a kill left half-written.
  void remove_tokens_after(int64_t step) const;

 private:
  RunFolder(LockedDirectory directory, std::string_view config_yaml);
  void require_rows() const;

  LockedDirectory directory_;
  std::string config_yaml_;
  GrowingFile metrics_, samples_, log_;
  std::optional<EventFile> events_;
};

}  // namespace keel
