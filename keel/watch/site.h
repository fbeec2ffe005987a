#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "keel/record/report/report.h"
#include "keel/watch/live_page.h"
#include "keel/watch/watched_runs.h"

namespace keel {

/// A validated request.
struct PageRequest {
  std::string route;              // "": a page; "state": the state for its script; others do not exist
  std::vector<std::string> runs;  // names of the selected runs; empty: all
};

struct PageResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body = {};
  std::string policy = {};  // the page's Content-Security-Policy; empty: allow nothing
};

/// Builds and caches the pages of the watched runs. A request rebuilds a page if its runs have changed, at most once a
/// second and with at most a fifth of a core. Thread-safe.
class Site {
 public:
  /// `runs` must outlive it.
  explicit Site(const WatchedRuns& runs) : runs_(runs) {}

  PageResponse respond(const PageRequest& request);
  /// Returns when a page last polled the state, on the steady clock; 0: never.
  double last_poll() const { return last_poll_; }

  static constexpr size_t kMaxRunsPerPage = 12;

 private:
  using RecordsOfRuns = std::map<std::filesystem::path, LiveTokenRecords>;  // read so far
  struct CachedPage {
    PageResponse page;
    std::string version;
    std::shared_ptr<RecordsOfRuns> records;  // guarded by build_mutex_
    double built_at = 0, next_build = 0;     // times on the steady clock
  };

  PageResponse report(const WatchedRuns::List& shown, bool is_selection);
  CachedPage build(const WatchedRuns::List& shown, bool is_selection, std::shared_ptr<RecordsOfRuns> records);
  static RunData read(const std::filesystem::path& run, size_t max_rows, RecordsOfRuns& records);
  static std::optional<RunData> try_read(const WatchedRun& run, size_t max_rows, RecordsOfRuns& records,
                                         std::vector<std::string>& errors);
  std::string next_version(const WatchedRuns::List& shown, bool is_selection) const;
  std::optional<CachedPage> find_cached(const std::string& query) const;

  const WatchedRuns& runs_;
  std::atomic<double> last_poll_ = 0;
  std::timed_mutex build_mutex_;             // one page is built at a time
  mutable std::mutex mutex_;                 // guards pages_
  std::map<std::string, CachedPage> pages_;  // by query; at most a few
};

}  // namespace keel
