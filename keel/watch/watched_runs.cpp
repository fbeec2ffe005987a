#include "keel/watch/watched_runs.h"

#include <algorithm>
#include <set>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/shell_words.h"
#include "keel/record/run_data.h"
#include "keel/record/tools/exported_run.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

constexpr double kStaleSeconds = 120;  // since the last write, for a run of another machine or container

/// Returns "RL step 12"; "" before the first row.
std::string step_text(const RunSnapshot& snapshot) {
  const RunRows& rows = *snapshot.rows;
  if (rows.phase.empty()) return "";
  const std::string phase = rows.phase == "rl"     ? "RL "
                            : rows.phase == "sft"  ? "supervised "
                            : rows.phase == "eval" ? "evaluated at "
                                                   : "";
  return phase + "step " + std::to_string(rows.step);
}

RunState state_of(const RunSnapshot& snapshot, bool is_remote, double now) {
  if (!snapshot.exists) return RunState::kGone;
  if (snapshot.is_locked) return snapshot.rows->phase.empty() ? RunState::kWaiting : RunState::kLive;
  if (snapshot.is_finished) return RunState::kEnded;
  if (snapshot.rows->phase.empty()) return RunState::kWaiting;
  if (!is_remote) return RunState::kInterrupted;
  return now - snapshot.last_write < kStaleSeconds ? RunState::kLive : RunState::kStale;
}

}  // namespace

const char* state_name(RunState state) {
  switch (state) {
    case RunState::kGone:
      return "gone";
    case RunState::kWaiting:
      return "waiting";
    case RunState::kLive:
      return "live";
    case RunState::kEnded:
      return "ended";
    case RunState::kInterrupted:
      return "interrupted";
    case RunState::kStale:
      return "stale";
  }
  return "";
}

std::string state_text(const WatchedRun& run, double now) {
  const std::string step = step_text(run.snapshot), suffix = step.empty() ? "" : ", " + step;
  const auto seconds_ago = static_cast<int64_t>(std::max(0.0, now - run.snapshot.last_write));
  switch (run.state) {
    case RunState::kGone:
      return "no such folder; it appears here when it exists";
    case RunState::kWaiting:
      return "no rows yet";
    case RunState::kLive:
      return "live" + suffix + ", last write " + std::to_string(seconds_ago) + " s ago";
    case RunState::kEnded:
      return "ended" + suffix;
    case RunState::kInterrupted:
      return "interrupted" + suffix +
             (run.snapshot.has_checkpoint ? "; to continue: keel train "
                                          : ", without a checkpoint; to start again: keel train ") +
             shell_word((run.folder / "config.yaml").string()) + (run.snapshot.has_checkpoint ? " --resume" : "");
    case RunState::kStale:
      return "no write for " + std::to_string(seconds_ago) + " s" + suffix;
  }
  return "";
}

WatchedRuns::WatchedRuns(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (!is_folder(folder))
      fail(ExitCode::kBadInput, folder, ": is not a folder; give a run, such as runs/quickstart, or a folder of runs");
    std::vector<fs::path>& list = is_run(folder) ? run_folders_ : parent_folders_;
    if (std::ranges::find(list, fs::path(full_path(folder))) == list.end()) list.push_back(full_path(folder));
  }
}

WatchedRuns WatchedRuns::for_new_run(const fs::path& run) {
  WatchedRuns runs;
  runs.run_folders_.push_back(full_path(run));
  return runs;
}

/// Lists the watched runs. Runs with the same name get their paths as names.
WatchedRuns::List WatchedRuns::list_runs() const {
  List list;
  std::set<fs::path> known;
  const auto add = [&](const fs::path& folder) {
    if (known.insert(folder).second) list.push_back({.name = run_name(folder), .folder = folder});
  };
  for (const fs::path& folder : run_folders_) add(folder);
  for (const fs::path& parent : parent_folders_) {
    try {
      for (const std::string& name : list_directory(parent))
        if (is_run(parent / name)) add(parent / name);
    } catch (const Error&) {  // the folder was removed
    }
  }
  for (const auto& [folder, history] : history_) add(folder);  // a removed run may be recreated
  std::map<std::string, int> name_counts;
  for (const WatchedRun& run : list) ++name_counts[run.name];
  for (WatchedRun& run : list)
    if (name_counts[run.name] > 1) run.name = run.folder.string();
  return list;
}

/// Updates a run. Returns its change since the last refresh as a message, or "".
std::string WatchedRuns::refresh_run(WatchedRun& run, const LockedFolders& locked, double now) {
  History& history = history_[run.folder];
  const RunSnapshot before = std::exchange(history.snapshot, take_snapshot(run.folder, locked, history.snapshot));
  const RunSnapshot& snapshot = history.snapshot;
  // A process that writes without a lock in /proc/locks is on another machine or in another container.
  if (before.exists && !before.is_locked && !snapshot.is_locked && before.last_write > 0 &&
      snapshot.last_write > before.last_write)
    history.is_remote = true;
  if (snapshot.is_locked) history.is_remote = false;
  const bool is_different_run = !history.id.empty() && !snapshot.id.empty() && snapshot.id != history.id;
  const bool has_reappeared = snapshot.exists && !before.exists && history.existed;
  if (!snapshot.id.empty()) history.id = snapshot.id;
  history.existed = history.existed || snapshot.exists;
  const RunState previous = std::exchange(history.state, state_of(snapshot, history.is_remote, now));
  std::string change;
  if (is_different_run)
    change = "is another run now";
  else if (has_reappeared)
    change = "is back";
  else if (before.exists && !snapshot.exists)
    change = "was removed";
  if (!change.empty()) history.note = change;
  run.snapshot = snapshot;
  run.state = history.state;
  run.note = history.note;
  if (change.empty() && history.state != previous) change = state_text(run, now);
  return change;
}

std::vector<std::string> WatchedRuns::refresh() {
  const LockedFolders locked = LockedFolders::read();
  const double now = seconds_since_1970();
  List list = list_runs();
  std::vector<std::string> changes;
  for (WatchedRun& run : list)
    if (const std::string change = refresh_run(run, locked, now); !change.empty())
      changes.push_back(run.name + ": " + change);
  if (list.size() > kMaxRuns) {
    std::ranges::stable_sort(
        list, [](const auto& a, const auto& b) { return a.snapshot.last_write > b.snapshot.last_write; });
    list.resize(kMaxRuns);
  }
  std::set<fs::path> folders;
  for (const WatchedRun& run : list) folders.insert(run.folder);
  std::erase_if(history_,
                [&](const auto& entry) { return !folders.contains(entry.first) && !entry.second.snapshot.exists; });
  if (!std::exchange(has_refreshed_, true)) changes.clear();  // the first refresh has nothing to compare with
  const std::scoped_lock lock(*mutex_);
  runs_ = std::make_shared<const List>(std::move(list));
  return changes;
}

std::shared_ptr<const WatchedRuns::List> WatchedRuns::runs() const {
  const std::scoped_lock lock(*mutex_);
  return runs_;
}

}  // namespace keel
