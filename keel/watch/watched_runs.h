#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "keel/watch/run_snapshot.h"

namespace keel {

enum class RunState {
  kGone,         // the folder does not exist
  kWaiting,      // the run has no rows yet
  kLive,         // a process has locked the folder
  kEnded,        // all planned steps are done
  kInterrupted,  // no process has locked the folder, and the run is not finished
  kStale,        // a process of another machine or container writes to it, but has not recently
};

/// A run at the last refresh.
struct WatchedRun {
  std::string name;  // of the folder, or its path if the name is not unique
  std::filesystem::path folder;
  RunSnapshot snapshot = {};
  RunState state = RunState::kGone;
  std::string note = {};  // if it was removed or replaced while watched
};

/// Returns "live", "ended", ... for JSON and CSS.
const char* state_name(RunState state);
/// Returns "live, RL step 12, last write 3 s ago". `now` is in seconds since 1970.
std::string state_text(const WatchedRun& run, double now);

/// The watched run folders and folders of runs, whose runs may appear and disappear.
class WatchedRuns {
 public:
  using List = std::vector<WatchedRun>;

  /// Throws an Error (exit code 3) if a folder does not exist.
  explicit WatchedRuns(const std::vector<std::string>& folders);
  /// Watches a run that is about to start. Its folder need not exist.
  static WatchedRuns for_new_run(const std::filesystem::path& run);

  /// Reads the state of all runs. Returns the changes since the last call as messages.
  std::vector<std::string> refresh();
  /// Returns the runs at the last refresh. Thread-safe.
  std::shared_ptr<const List> runs() const;

  /// Returns whether folders of runs are watched, so that a list of runs is shown.
  bool has_folders() const { return !parent_folders_.empty(); }
  static constexpr size_t kMaxRuns = 500;  // shown; those with the latest writes

 private:
  WatchedRuns() = default;
  struct History {  // of one folder
    RunSnapshot snapshot;
    RunState state = RunState::kGone;
    bool existed = false, is_remote = false;  // is_remote: another machine or container writes to it
    std::string id, note;
  };
  List list_runs() const;
  std::string refresh_run(WatchedRun& run, const LockedFolders& locked, double now);

  std::vector<std::filesystem::path> run_folders_, parent_folders_;
  std::map<std::filesystem::path, History> history_;
  bool has_refreshed_ = false;
  mutable std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::shared_ptr<const List> runs_ = std::make_shared<List>();
};

}  // namespace keel
