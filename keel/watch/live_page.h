#pragma once

#include <string>
#include <vector>

#include "keel/record/report/page.h"
#include "keel/record/run_data.h"
#include "keel/watch/watched_runs.h"

namespace keel {

// A page that stays up to date: its script asks the server for the state of what it shows, writes it into the bar at
// its top, and loads the page again where its version is another one; what was scrolled to, unfolded, filtered and
// typed stays.

/// The page of some runs: the report of those that could be read, and of each other one why not.
struct LiveReport {
  std::vector<WatchedRun> shown;
  std::vector<RunData> read = {};
  std::vector<std::string> unread = {};
  std::string version;
  bool is_choice = false;  // there are others: the bar leads back to all of them
};
Page live_report_page(const LiveReport& report);

/// The runs of folders, to choose from.
Page list_page(const std::vector<WatchedRun>& runs, const std::string& version);

/// What the script of either asks for.
std::string state_json(const std::vector<WatchedRun>& runs, const std::string& version);

/// "?run=a&run=b".
std::string query_of(const std::vector<WatchedRun>& runs);

const char* live_style();
const char* live_script();

}  // namespace keel
