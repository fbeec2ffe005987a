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

constexpr double kLately = 120;  // seconds: of somebody who is not seen, and has written since

/// "RL step 12"; "" before the first row.
std::string place_in(const RunGlance& glance) {
  if (glance.phase.empty()) return "";
  const std::string phase = glance.phase == "rl"     ? "RL "
                            : glance.phase == "sft"  ? "supervised "
                            : glance.phase == "eval" ? "evaluated at "
                                                     : "";
  return phase + "step " + std::to_string(glance.step);
}

RunState state_of(const RunGlance& glance, bool is_unseen, double now) {
  if (!glance.is_there) return RunState::kGone;
  if (glance.is_held) return glance.phase.empty() ? RunState::kWaiting : RunState::kLive;
  if (glance.is_finished) return RunState::kEnded;
  if (glance.phase.empty()) return RunState::kWaiting;
  if (!is_unseen) return RunState::kInterrupted;
  return now - glance.heard < kLately ? RunState::kLive : RunState::kUnheard;
}

}  // namespace

const char* state_word(RunState state) {
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
    case RunState::kUnheard:
      return "unheard";
  }
  return "";
}

std::string state_text(const WatchedRun& run, double now) {
  const std::string place = place_in(run.glance), behind = place.empty() ? "" : ", " + place;
  const auto ago = static_cast<int64_t>(std::max(0.0, now - run.glance.heard));
  switch (run.state) {
    case RunState::kGone:
      return "no such folder; it is shown as soon as it is there";
    case RunState::kWaiting:
      return "no rows yet";
    case RunState::kLive:
      return "live" + behind + ", last heard of " + std::to_string(ago) + " s ago";
    case RunState::kEnded:
      return "ended" + behind;
    case RunState::kInterrupted:
      return "interrupted" + behind + "; goes on with: keel train " +
             shell_word((run.folder / "config.yaml").string()) + " --resume";
    case RunState::kUnheard:
      return "not heard of for " + std::to_string(ago) + " s" + behind;
  }
  return "";
}

WatchedRuns::WatchedRuns(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (!is_folder(folder))
      fail(ExitCode::kBadInput, folder,
           ": is no folder; name a run's, such as runs/quickstart, or one with runs in it");
    std::vector<fs::path>& list = is_run(folder) ? named_ : parents_;
    if (std::ranges::find(list, fs::path(full_path(folder))) == list.end()) list.push_back(full_path(folder));
  }
}

WatchedRuns WatchedRuns::of_beginning(const fs::path& run) {
  WatchedRuns runs;
  runs.named_.push_back(full_path(run));
  return runs;
}

/// The runs to look at; those of one name are told apart by their paths.
WatchedRuns::List WatchedRuns::found_folders() const {
  List list;
  std::set<fs::path> known;
  const auto add = [&](const fs::path& folder) {
    if (known.insert(folder).second) list.push_back({.name = run_name(folder), .folder = folder});
  };
  for (const fs::path& folder : named_) add(folder);
  for (const fs::path& parent : parents_) {
    try {
      for (const std::string& name : list_directory(parent))
        if (is_run(parent / name)) add(parent / name);
    } catch (const Error&) {  // removed: there are none
    }
  }
  for (const auto& [folder, seen] : seen_) add(folder);  // a run that was removed may come back
  std::map<std::string, int> count;
  for (const WatchedRun& run : list) ++count[run.name];
  for (WatchedRun& run : list)
    if (count[run.name] > 1) run.name = run.folder.string();
  return list;
}

/// What has become of a run since the last look; "" where there is nothing to say.
std::string WatchedRuns::look_at(WatchedRun& run, const LockedFolders& locked, double now) {
  Seen& seen = seen_[run.folder];
  const RunGlance before = std::exchange(seen.glance, glance_at(run.folder, locked, seen.glance));
  const RunGlance& glance = seen.glance;
  // Who writes without being seen is on another machine, or in another container.
  if (before.is_there && !before.is_held && !glance.is_held && before.heard > 0 && glance.heard > before.heard)
    seen.is_unseen = true;
  if (glance.is_held) seen.is_unseen = false;
  const bool is_other = !seen.id.empty() && !glance.id.empty() && glance.id != seen.id;
  const bool is_back = glance.is_there && !before.is_there && seen.was_there;
  if (!glance.id.empty()) seen.id = glance.id;
  seen.was_there = seen.was_there || glance.is_there;
  const RunState was = std::exchange(seen.state, state_of(glance, seen.is_unseen, now));
  std::string said;
  if (is_other)
    said = "is another run now";
  else if (is_back)
    said = "is back";
  else if (before.is_there && !glance.is_there)
    said = "was removed";
  if (!said.empty()) seen.note = said;
  run.glance = glance;
  run.state = seen.state;
  run.note = seen.note;
  if (said.empty() && seen.state != was) said = state_text(run, now);
  return said;
}

std::vector<std::string> WatchedRuns::look() {
  const LockedFolders locked = LockedFolders::read();
  const double now = seconds_since_1970();
  List list = found_folders();
  std::vector<std::string> told;
  for (WatchedRun& run : list)
    if (const std::string said = look_at(run, locked, now); !said.empty()) told.push_back(run.name + ": " + said);
  if (list.size() > kMost) {
    std::ranges::stable_sort(list, [](const auto& a, const auto& b) { return a.glance.heard > b.glance.heard; });
    list.resize(kMost);
  }
  std::set<fs::path> folders;
  for (const WatchedRun& run : list) folders.insert(run.folder);
  std::erase_if(seen_, [&](const auto& seen) { return !folders.contains(seen.first) && !seen.second.glance.is_there; });
  if (!std::exchange(looked_, true)) told.clear();
  const std::scoped_lock lock(*mutex_);
  runs_ = std::make_shared<const List>(std::move(list));
  return told;
}

std::shared_ptr<const WatchedRuns::List> WatchedRuns::runs() const {
  const std::scoped_lock lock(*mutex_);
  return runs_;
}

}  // namespace keel
