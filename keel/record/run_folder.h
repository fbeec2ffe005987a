#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/files/held_folder.h"
#include "keel/core/json.h"
#include "keel/record/growing_file.h"
#include "keel/record/tools/event_file.h"

namespace keel {

/// The folder that a run writes to, or a file in it, is no longer found under its name (exit code 4).
class FolderLost : public Error {
 public:
  FolderLost(const std::string& message, std::optional<std::filesystem::path> now)
      : Error(ExitCode::kHealthGuard, message), now_(std::move(now)) {}
  /// Where the folder is now, whole; nothing when it was removed or files in it were.
  const std::optional<std::filesystem::path>& now() const { return now_; }

 private:
  std::optional<std::filesystem::path> now_;
};

/// The files a run leaves behind while it goes on: metrics.jsonl, samples.jsonl, log.txt; and used.json. The folder is
/// held: whatever happens to its name, nothing is written to another's.
class RunFolder {
 public:
  /// The first line of a run's config.yaml: by it, or by the id in used.json, a folder is known to hold a run.
  static constexpr std::string_view kConfigHeading = "The full, resolved configuration of this run.";

  /// Whether a run is in the folder: one's own config.yaml does not make it a run's.
  static bool holds_run(const std::filesystem::path& path);
  /// Refuses (exit code 2) a folder that is taken, unless `replace` is set and it holds a run.
  static void require_free(const std::filesystem::path& path, bool replace);

  /// A new run, in a folder that require_free() accepts; a run that is there is removed. What is there beside it is
  /// not the run's: it stays, and log.txt names it.
  static RunFolder create(const std::filesystem::path& path, bool replace, std::string_view config_yaml);

  /// Claims an existing run for this process; one that another process holds is refused (exit code 2).
  static HeldFolder claim(const std::filesystem::path& path);

  /// The growing files, as a checkpoint remembers them.
  struct Lines {
    LineChecksums metrics, samples, log;
  };

  /// Refuses (exit code 3) rows of metrics and samples that are not what a checkpoint remembers, by file and line.
  static void require_unchanged(const HeldFolder& held, const Lines& lines);

  /// A run that goes on from a checkpoint: what was written after it is cut off, and config.yaml says what holds from
  /// now on (more steps, another interval of saving). Of rows that were changed the others stay, and the file as it was
  /// is kept; a log is nobody's data, and goes on as it is. Both are told in `notes`.
  static RunFolder reopen(HeldFolder held, const Lines& lines, std::string_view config_yaml,
                          std::vector<std::string>& notes);

  /// Writes down what the run is made of, for its report, and its id (own_run()). Returns what there is to say of files
  /// that rewards come from and that are others than when the run was last started.
  std::vector<std::string> note_used(Json settings, const std::string& run) const;

  /// Whether a run has written or reads what has this name, or it lies in its folders; links to it are followed.
  static bool is_of_a_run(const std::filesystem::path& path);
  /// Refuses (exit code 2) such a name for something to be written; a link there is what it is.
  static void require_not_of_a_run(const std::filesystem::path& path);

  /// Adds a row; members that are not finite numbers are left out, for JSON has no word for them. One that may not be
  /// written (permissions) is told by require_own(), and is in a copy. Metrics also say when they were added.
  /// Returns the line as it was written.
  std::string add_metrics(const Json& row);
  void add_sample(const Json& row);
  /// From here on metrics go to an event file of TensorBoard's as well, RUN/tensorboard. It is made anew from the rows
  /// that there are and takes the place of older ones: metrics.jsonl says what happened, and this what it says.
  void write_events();
  /// What could steer a terminal becomes visible.
  void log(std::string_view line);
  /// Why the log does not grow any more; it is nobody's data.
  const std::optional<std::string>& log_failure() const { return log_.failure(); }

  /// Everything added so far is on the disk when this returns.
  Lines sync();

  /// Throws FolderLost when the folder or its rows are no longer found where they were made, or may not be written. A
  /// log or an event file that is not found is begun anew, and config.yaml is written again; what is no file and has
  /// the name of one of these is moved aside.
  void require_own();

  /// Where to save a run whose folder is lost; an earlier process of this number may have rescued one, too.
  static std::string free_name_beside(const std::filesystem::path& run);

  /// A new run in another, free folder, with everything added so far, also when this one is lost.
  RunFolder copy_to(const std::filesystem::path& path, std::string_view config_yaml) const;

  const std::filesystem::path& path() const { return held_.path(); }
  std::filesystem::path checkpoints() const { return path() / "checkpoints"; }
  std::filesystem::path tokens() const { return path() / "tokens"; }
  /// Removes the token records of later steps, which will be made again, and what a kill left half-written.
  void forget_tokens_after(int64_t step) const;

 private:
  RunFolder(HeldFolder held, std::string_view config_yaml);
  void require_found() const;
  void look_after_others();

  HeldFolder held_;
  std::string config_yaml_;
  GrowingFile metrics_, samples_, log_;
  std::optional<EventFile> events_;
};

}  // namespace keel
