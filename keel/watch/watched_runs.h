#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "keel/watch/run_glance.h"

namespace keel {

enum class RunState {
  kGone,         // there is no such folder (any more)
  kWaiting,      // it has no rows yet
  kLive,         // a process has it
  kEnded,        // all planned steps were made
  kInterrupted,  // nobody has it, and it did not come to its end
  kUnheard,      // somebody writes to it who is not seen from here (another machine, another container), but not lately
};

/// A run as it was when it was last looked at.
struct WatchedRun {
  std::string name;  // the folder's, or its path where two have that name
  std::filesystem::path folder;
  RunGlance glance = {};
  RunState state = RunState::kGone;
  std::string note = {};  // of one that was removed or replaced since it is watched
};

/// "live", "ended", ...: for programs.
const char* state_word(RunState state);
/// For people: "live, RL step 12, last row 3 s ago". `now` is in seconds since 1970.
std::string state_text(const WatchedRun& run, double now);

/// What is asked to be watched: run folders, and folders of runs, whose runs may come and go.
class WatchedRuns {
 public:
  using List = std::vector<WatchedRun>;

  /// Refuses (exit code 3) a folder that is not there.
  explicit WatchedRuns(const std::vector<std::string>& folders);
  /// A run that is about to begin: its folder may be missing.
  static WatchedRuns of_beginning(const std::filesystem::path& run);

  /// Looks at all of them, and says what has become of them since the last look.
  std::vector<std::string> look();
  /// As they were then; from any thread.
  std::shared_ptr<const List> runs() const;

  /// Whether a folder of runs is among them, of which some are to be chosen.
  bool has_folders() const { return !parents_.empty(); }
  static constexpr size_t kMost = 500;  // of a folder's runs that are shown: those heard of last

 private:
  WatchedRuns() = default;
  struct Seen {  // of one folder, between looks
    RunGlance glance;
    RunState state = RunState::kGone;
    bool was_there = false, is_unseen = false;
    std::string id, note;
  };
  List found_folders() const;
  std::string look_at(WatchedRun& run, const LockedFolders& locked, double now);

  std::vector<std::filesystem::path> named_, parents_;
  std::map<std::filesystem::path, Seen> seen_;
  bool looked_ = false;
  mutable std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::shared_ptr<const List> runs_ = std::make_shared<List>();
};

}  // namespace keel
