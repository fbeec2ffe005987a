#pragma once

#include <string>
#include <vector>

#include "keel/record/report/page.h"
#include "keel/record/run_data.h"
#include "keel/watch/watched_runs.h"

namespace keel {

// A page that updates itself. Its script polls the server for the state of the runs, writes it into the bar at the top,
// and reloads the page if its version has changed. Scroll position, open sections and inputs stay.

/// The report page of some runs.
struct LiveReport {
  std::vector<WatchedRun> shown;
  std::vector<RunData> read = {};
  std::vector<std::string> errors = {};  // one per run that could not be read
  std::string version;
  bool is_selection = false;  // some of several runs are selected: the bar links to all runs
};
Page live_report_page(const LiveReport& report);

/// Builds the list of runs, with a checkbox for each.
Page list_page(const std::vector<WatchedRun>& runs, const std::string& version);

/// Returns the state that the scripts of both pages poll.
std::string state_json(const std::vector<WatchedRun>& runs, const std::string& version);

/// Returns "?run=a&run=b".
std::string query_of(const std::vector<WatchedRun>& runs);

const char* live_style();
const char* live_script();

}  // namespace keel
