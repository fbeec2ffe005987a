#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "keel/core/files/file.h"
#include "keel/record/tools/exported_run.h"

namespace keel {

/// A record of a TFRecord file: its length and itself, each with a CRC-32C that is "masked" (turned and moved by a
/// constant, so that checksums of data with checksums in it stay good).
std::string tfrecord(std::string_view record);

/// A file of TensorBoard's, events.out.tfevents.TIME.RUN.keel, that grows with a run. Each step is one write of one
/// record; a process that is killed in it leaves a torn last record, which TensorBoard takes for one that is still
/// being written.
class EventFile {
 public:
  /// Begins a new file, whose name comes after those of the folder's own ones: TensorBoard reads files in the order of
  /// their names, and goes on to a later one. It says that all steps begin anew, so that what TensorBoard has read from
  /// an older file gives way. `config` is shown as a text. `run` is the run's id; where it is no name of letters and
  /// digits, the file's name is without it.
  static EventFile begin(const std::filesystem::path& folder, std::string_view config, const std::string& run);

  /// Whether this is the name of a file that begin() makes for a run.
  static bool is_own(std::string_view name, const std::string& run);

  /// A number that this step has already (`updates`, of a step and its evaluation) is not written twice.
  void add(const ExportedStep& step);
  /// Written with the next step, or when the file is synced: the samples of a step are one text.
  void add_sample(const ExportedSample& sample);
  void sync();
  /// Removes all other event files of the run, when this one has what they had. Of the last one an empty file stays: a
  /// TensorBoard that has it open goes on to the next only while it finds the name.
  void replace_older() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  void write_samples();
  EventFile(std::filesystem::path path, std::string run, AppendFile file)
      : path_(std::move(path)), run_(std::move(run)), file_(std::move(file)) {}

  std::filesystem::path path_;
  std::string run_;
  AppendFile file_;
  int64_t last_step_ = -1;
  double last_time_ = 0;
  std::set<std::string, std::less<>> of_last_step_;  // names that it has
  std::map<std::pair<int64_t, std::string>, std::string> samples_;  // by step and phase: not written yet
};

}  // namespace keel
