#include "keel/watch/site.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "keel/core/error.h"
#include "keel/core/files/hash.h"
#include "keel/core/steady_clock.h"

namespace keel {
namespace {

constexpr double kBuildInterval = 1, kFailureInterval = 10;  // seconds between builds of a page
constexpr double kBuildTimeFactor = 5;                       // the interval is at least this many build times
constexpr std::chrono::seconds kBuildTimeout(20);
constexpr size_t kMaxPages = 4;                // in the cache, a few megabytes each
constexpr size_t kMaxRows = 40'000;            // token rows in a page, which is reloaded often
constexpr int64_t kMaxRowsPerBuild = 200'000;  // token rows read for a page; the next builds read the rest

PageResponse text_response(int status, std::string text) {
  return {.status = status, .body = std::make_shared<const std::string>(std::move(text))};
}

PageResponse html_response(const Page& page) {
  return {.type = "text/html; charset=utf-8",
          .body = std::make_shared<const std::string>(page_html(page)),
          .policy = page_policy(page)};
}

std::string report_version(const WatchedRuns::List& shown) {
  std::string all;
  for (const WatchedRun& run : shown) all += run.name + " " + run.snapshot.version + "\n";
  return sha256_hex(all).substr(0, 16);
}

/// Returns the version of the list page, which changes with its runs. The script updates their states.
std::string list_version(const WatchedRuns::List& runs) {
  std::string all;
  for (const WatchedRun& run : runs) all += run.name + "\n";
  return sha256_hex(all).substr(0, 16);
}

}  // namespace

PageResponse Site::respond(const PageRequest& request) {
  const std::shared_ptr<const WatchedRuns::List> runs = runs_.runs();
  const bool is_selection = !request.runs.empty(), is_list = !is_selection && runs_.has_folders();
  if (request.runs.size() > kMaxRunsPerPage)
    return text_response(400, "At most " + std::to_string(kMaxRunsPerPage) + " runs can be compared.\n");
  WatchedRuns::List shown = is_selection ? WatchedRuns::List() : *runs;
  for (const std::string& name : request.runs) {
    const auto found = std::ranges::find(*runs, name, &WatchedRun::name);
    if (found == runs->end()) return text_response(404, "No watched run has this name.\n");
    if (std::ranges::find(shown, name, &WatchedRun::name) == shown.end()) shown.push_back(*found);
  }
  if (request.route == "state") {
    last_poll_ = steady_seconds();
    return {.type = "application/json",
            .body = std::make_shared<const std::string>(
                state_json(shown, is_list ? list_version(shown) : next_version(shown, is_selection)))};
  }
  if (!request.route.empty()) return text_response(404, "Page not found.\n");
  return is_list ? html_response(list_page(shown, list_version(shown))) : report(shown, is_selection);
}

std::optional<Site::CachedPage> Site::find_cached(const std::string& query) const {
  const std::scoped_lock lock(mutex_);
  const auto found = pages_.find(query);
  return found == pages_.end() ? std::nullopt : std::optional(found->second);
}

/// Returns the version that a request would get now. The cached page may not be due for a rebuild.
std::string Site::next_version(const WatchedRuns::List& shown, bool is_selection) const {
  const std::optional<CachedPage> last = find_cached(is_selection ? query_of(shown) : "");
  return last && steady_seconds() < last->next_build ? last->version : report_version(shown);
}

PageResponse Site::report(const WatchedRuns::List& shown, bool is_selection) {
  const std::string query = is_selection ? query_of(shown) : "";
  const auto find_current = [&]() -> std::optional<CachedPage> {
    const std::optional<CachedPage> last = find_cached(query);
    return last && last->version == next_version(shown, is_selection) ? last : std::nullopt;
  };
  if (const std::optional<CachedPage> current = find_current()) return current->page;
  const std::unique_lock building(build_mutex_, kBuildTimeout);
  if (!building.owns_lock()) return text_response(503, "The page takes long to build; try again.\n");
  if (const std::optional<CachedPage> current = find_current()) return current->page;  // built by another thread
  const std::optional<CachedPage> last = find_cached(query);
  CachedPage page = build(shown, is_selection, last ? last->records : std::make_shared<RecordsOfRuns>());
  const std::scoped_lock lock(mutex_);
  pages_[query] = page;
  if (pages_.size() > kMaxPages)
    pages_.erase(std::ranges::min_element(pages_, {}, [](const auto& each) { return each.second.built_at; }));
  return page.page;
}

RunData Site::read(const std::filesystem::path& run, size_t max_rows, RecordsOfRuns& records) {
  RunData data = read_run(run);
  auto entry = records.find(run);
  if (entry == records.end() || entry->second.max_rows() != max_rows)
    entry = records.insert_or_assign(run, LiveTokenRecords(run, max_rows)).first;
  entry->second.read_new_files(kMaxRowsPerBuild);
  data.recorded = entry->second.tokens();
  count_rl_steps_from_one(data);
  return data;
}

/// Retries, because a run that is being replaced or resumed may be unreadable for a moment.
std::optional<RunData> Site::try_read(const WatchedRun& run, size_t max_rows, RecordsOfRuns& records,
                                      std::vector<std::string>& errors) {
  constexpr int kTries = 3;
  for (int i = 1;; ++i) {
    try {
      return read(run.folder, max_rows, records);
    } catch (const std::exception& error) {
      records.erase(run.folder);
      if (i == kTries) {
        errors.push_back(run.name + " cannot be shown now: " + error.what());
        return std::nullopt;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Site::CachedPage Site::build(const WatchedRuns::List& shown, bool is_selection,
                             std::shared_ptr<RecordsOfRuns> records) {
  const double begin = steady_seconds();
  LiveReport report{.shown = shown, .version = report_version(shown), .is_selection = is_selection};
  std::erase_if(*records, [&](const auto& each) {
    return std::ranges::find(shown, each.first, &WatchedRun::folder) == shown.end();
  });
  bool has_pending_rows = false;
  for (const WatchedRun& run : shown)
    if (run.snapshot.has_rows)
      if (std::optional<RunData> data = try_read(run, kMaxRows / shown.size(), *records, report.errors)) {
        data->name = run.name;
        has_pending_rows = has_pending_rows || data->recorded.pending_steps > 0;
        report.read.push_back(std::move(*data));
      }
  const bool failed = !report.errors.empty();
  if (failed || has_pending_rows)
    report.version += "-" + std::to_string(static_cast<int64_t>(begin));  // forces a rebuild
  CachedPage cached{
      .page = html_response(live_report_page(report)), .version = report.version, .records = std::move(records)};
  cached.built_at = steady_seconds();
  const double interval = failed ? kFailureInterval : kBuildInterval;
  cached.next_build = cached.built_at + std::max(interval, kBuildTimeFactor * (cached.built_at - begin));
  return cached;
}

}  // namespace keel
