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

/// What a request asks for, once it may ask at all.
struct Question {
  std::string route;              // "": a page; "state": what its script asks for; else nothing that is known
  std::vector<std::string> runs;  // the chosen ones, by name; empty: all that were named
};

struct Reply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body = {};
  std::string policy = {};  // the page's Content-Security-Policy; empty: nothing is allowed
};

/// The pages about the runs that are watched. A page is made when it is asked for, but only where its runs have changed
/// since, and no more often than once a second or than a fifth of a core's time goes into it. From any thread.
class Site {
 public:
  /// `runs` must outlive it.
  explicit Site(const WatchedRuns& runs) : runs_(runs) {}

  Reply answer(const Question& question);
  /// When a page last asked for the state of its runs, on the steady clock; 0: none did.
  double last_asked() const { return last_asked_; }

  static constexpr size_t kMostSideBySide = 12;

 private:
  using RecordsOfRuns = std::map<std::filesystem::path, LiveTokenRecords>;  // as far as a page has them
  struct Made {
    Reply page;
    std::string version;
    std::shared_ptr<RecordsOfRuns> records;  // whoever makes the page may touch them
    double at = 0, next = 0;                 // when it was made, and when it may be made again
  };

  Reply report(const WatchedRuns::List& shown, bool is_choice);
  Made make(const WatchedRuns::List& shown, bool is_choice, std::shared_ptr<RecordsOfRuns> records);
  static RunData read(const std::filesystem::path& run, size_t most, RecordsOfRuns& records);
  static std::optional<RunData> read_now(const WatchedRun& run, size_t most, RecordsOfRuns& records,
                                         std::vector<std::string>& unread);
  std::string version_to_come(const WatchedRuns::List& shown, bool is_choice) const;
  std::optional<Made> made(const std::string& query) const;

  const WatchedRuns& runs_;
  std::atomic<double> last_asked_ = 0;
  std::timed_mutex making_;            // one page at a time
  mutable std::mutex mutex_;           // of pages_
  std::map<std::string, Made> pages_;  // by the query that chooses the runs; a few
};

}  // namespace keel
