#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

namespace keel {

/// The folders that processes of this machine have locked, as a run does with its own (LockedDirectory). Read from
/// /proc/locks: to try the lock would be to take it, for a moment in which a run that begins would be refused.
class LockedFolders {
 public:
  static LockedFolders read();
  bool contains(dev_t device, ino_t number) const;

 private:
  std::set<std::pair<dev_t, ino_t>> folders_;
};

/// What a look at a run's folder tells, without reading it through. The run may be writing to it, or be replaced.
struct RunGlance {
  bool is_there = false;  // a folder of that name
  bool has_rows = false;  // and metrics.jsonl in it
  bool is_held = false;   // a process that is seen here has it
  bool is_finished = false;
  std::string id;       // of the run; empty where nothing tells
  std::string phase;    // of the last row: "sft", "rl" or "eval"; empty where there is none
  int64_t step = 0;     // of it
  double heard = 0;     // when a row, a sample or a line of the log was last written, in seconds since 1970
  std::string version;  // another one where what a report shows has changed
};

/// `before` is what the last look told: what has not changed since is not read again.
RunGlance glance_at(const std::filesystem::path& run, const LockedFolders& locked, const RunGlance& before = {});

/// Whether a folder holds a run, were it one that has no rows yet.
bool is_run(const std::filesystem::path& folder);

}  // namespace keel
