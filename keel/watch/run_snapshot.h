#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace keel {

/// The folders that processes of this machine have locked, as a run locks its own (LockedDirectory). Read from
/// /proc/locks: trying the lock would take it for a moment, in which a starting run would fail.
class LockedFolders {
 public:
  static LockedFolders read();
  bool contains(dev_t device, ino_t inode) const;

 private:
  std::set<std::pair<dev_t, ino_t>> folders_;
};

/// What metrics.jsonl has so far. Only the rows that are new since the last snapshot are read.
struct RunRows {
  std::string phase;                       // of the last row: "sft", "rl" or "eval"; empty without rows
  int64_t step = 0;                        // of the last row; RL steps count from 1
  std::vector<double> rewards = {};        // of the RL steps
  std::optional<int64_t> first_step = {};  // `step` of the first RL row
  uint64_t bytes = 0;                      // that were read
  std::string last_line = {};              // of these bytes
};

/// The state of a run's folder from its small files, while the run may be writing to it or be replaced.
struct RunSnapshot {
  bool exists = false;     // the folder exists
  bool has_rows = false;   // it contains metrics.jsonl
  bool is_locked = false;  // a process of this machine or container has locked it
  bool is_finished = false;
  bool has_checkpoint = false;
  std::string id;      // of the run; empty if unknown
  std::string method;  // objective.method; empty without RL
  std::shared_ptr<const RunRows> rows = std::make_shared<RunRows>();
  double last_write = 0;  // time of the last row, sample or log line, in seconds since 1970
  std::string version;    // changes with the content of a report
};

/// Reads the state of a run. Files that have not changed since `before` are not read again.
RunSnapshot take_snapshot(const std::filesystem::path& run, const LockedFolders& locked,
                          const RunSnapshot& before = {});

/// Returns whether a folder is a run, even one without rows.
bool is_run(const std::filesystem::path& folder);

}  // namespace keel
