#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "keel/core/file.h"
#include "keel/core/json.h"

namespace keel {

/// The files a run leaves behind while it goes on: metrics.jsonl, samples.jsonl, log.txt.
class RunFolder {
 public:
  /// Refuses (exit code 2) a folder that is taken, unless `replace` is set and it holds a run.
  static void require_free(const std::filesystem::path& path, bool replace);

  /// A new run, in a folder that require_free() accepts; a run that is there is removed.
  static RunFolder create(const std::filesystem::path& path, bool replace, std::string_view config_yaml);

  /// Claims an existing run for this process; one that another process holds is refused (exit code 2).
  static FileHandle claim(const std::filesystem::path& path);

  /// Bytes of each growing file, as a checkpoint remembers them.
  struct Sizes {
    uint64_t metrics = 0, samples = 0, log = 0;
  };

  /// A run that goes on from a checkpoint: what was written after it is cut off, and config.yaml says what holds from
  /// now on (more steps, another interval of saving).
  static RunFolder reopen(const std::filesystem::path& path, FileHandle claim, const Sizes& sizes,
                          std::string_view config_yaml);

  /// Adds a row; members that are not finite numbers are left out, for JSON has no word for them.
  void add_metrics(const Json& row);
  void add_sample(const Json& row);
  void log(std::string_view line);

  /// Everything added so far is on the disk when this returns.
  Sizes sync();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

 private:
  RunFolder(const std::filesystem::path& path, FileHandle claim);

  std::filesystem::path path_;
  FileHandle claim_;
  AppendFile metrics_, samples_, log_;
};

}  // namespace keel
