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

/// Encodes a TFRecord: length and data, each with a masked CRC-32C (rotated and offset, as the format defines it).
std::string tfrecord(std::string_view record);

/// A TensorBoard event file, events.out.tfevents.TIME.RUN.keel. Each step is one write of one record. A killed process
/// may leave an incomplete last record, which TensorBoard ignores.
class EventFile {
 public:
  /// Creates a file whose name sorts after existing ones, since TensorBoard reads files in the order of their names. A
  /// session start event makes TensorBoard discard steps of older files. `config` is shown as text. `run` is the run's
  /// id; the file name includes it if it is alphanumeric.
  static EventFile begin(const std::filesystem::path& folder, std::string_view config, const std::string& run);

  /// Returns whether begin() creates files of this name for the run.
  static bool is_own(std::string_view name, const std::string& run);

  /// Adds the metrics of a step, without those that it already has (such as `updates` of its evaluation).
  void add(const ExportedStep& step);
  /// Adds a sample. The samples of a step are written as one text with the next step or sync().
  void add_sample(const ExportedSample& sample);
  void sync();
  /// Removes the older event files of the run. The latest becomes an empty file, because a TensorBoard that has it open
  /// continues to the next file only if the name exists.
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
  std::set<std::string, std::less<>> names_of_last_step_;
  std::map<std::pair<int64_t, std::string>, std::string> samples_;  // pending, by step and phase
};

}  // namespace keel
