#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "keel/record/tools/exported_run.h"

namespace keel {

/// The log of an offline run of Weights & Biases: a header, then records in LevelDB's log format, in blocks of 32 KiB,
/// but with the CRC-32 of zip files, not masked, in place of LevelDB's.
class WandbLog {
 public:
  WandbLog();
  void add(std::string_view record);
  const std::string& bytes() const { return bytes_; }

 private:
  void add_part(char kind, std::string_view part);

  std::string bytes_;
};

/// The log of a run, in the records of wandb_internal.proto: header, run with its settings, a history of steps, the
/// last number of every metric, and the run's end: with exit code 0, 1 where it was stopped, and none where it goes on.
std::string wandb_log(const ExportedRun& run);

/// "offline-run-TIME-ID", the folder that `wandb sync` takes for a run, and "run-ID.wandb", its log in there.
std::string wandb_folder(const ExportedRun& run);
std::string wandb_file(const ExportedRun& run);

}  // namespace keel
