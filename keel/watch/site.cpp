#include "keel/watch/site.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "keel/core/error.h"
#include "keel/core/files/hash.h"
#include "keel/core/steady_clock.h"

namespace keel {
namespace {

constexpr double kBetween = 1, kShare = 5, kBetweenFailures = 10;  // seconds; how often the time that a page took
constexpr std::chrono::seconds kPatience(20);
constexpr size_t kMostPages = 4;          // which are some megabytes each
constexpr size_t kMostRows = 40'000;      // of token records in a page: it is loaded again and again
constexpr int64_t kRowsAtOnce = 200'000;  // that are read for a page; the others follow

Reply plain(int status, std::string text) {
  return {.status = status, .body = std::make_shared<const std::string>(std::move(text))};
}

Reply html(const Page& page) {
  return {.type = "text/html; charset=utf-8",
          .body = std::make_shared<const std::string>(page_html(page)),
          .policy = page_policy(page)};
}

std::string version_of(const WatchedRuns::List& shown) {
  std::string all;
  for (const WatchedRun& run : shown) all += run.name + " " + run.glance.version + "\n";
  return sha256_hex(all).substr(0, 16);
}

/// A list is made anew where other runs are in it; what becomes of them its script writes into it.
std::string names_of(const WatchedRuns::List& runs) {
  std::string all;
  for (const WatchedRun& run : runs) all += run.name + "\n";
  return sha256_hex(all).substr(0, 16);
}

}  // namespace

Reply Site::answer(const Question& question) {
  const std::shared_ptr<const WatchedRuns::List> runs = runs_.runs();
  const bool is_choice = !question.runs.empty(), is_list = !is_choice && runs_.has_folders();
  if (question.runs.size() > kMostSideBySide)
    return plain(400, "At most " + std::to_string(kMostSideBySide) + " runs can be shown side by side.\n");
  WatchedRuns::List shown = is_choice ? WatchedRuns::List() : *runs;
  for (const std::string& name : question.runs) {
    const auto found = std::ranges::find(*runs, name, &WatchedRun::name);
    if (found == runs->end()) return plain(404, "No run of this name is watched.\n");
    if (std::ranges::find(shown, name, &WatchedRun::name) == shown.end()) shown.push_back(*found);
  }
  if (question.route == "state") {
    last_asked_ = steady_seconds();
    return {.type = "application/json",
            .body = std::make_shared<const std::string>(
                state_json(shown, is_list ? names_of(shown) : version_to_come(shown, is_choice)))};
  }
  if (!question.route.empty()) return plain(404, "There is no such page.\n");
  return is_list ? html(list_page(shown, names_of(shown))) : report(shown, is_choice);
}

std::optional<Site::Made> Site::made(const std::string& query) const {
  const std::scoped_lock lock(mutex_);
  const auto found = pages_.find(query);
  return found == pages_.end() ? std::nullopt : std::optional(found->second);
}

/// Of the page that would be given now: the one there is may not be made again yet.
std::string Site::version_to_come(const WatchedRuns::List& shown, bool is_choice) const {
  const std::optional<Made> last = made(is_choice ? query_of(shown) : "");
  return last && steady_seconds() < last->next ? last->version : version_of(shown);
}

Reply Site::report(const WatchedRuns::List& shown, bool is_choice) {
  const std::string query = is_choice ? query_of(shown) : "";
  const auto fresh = [&]() -> std::optional<Made> {
    const std::optional<Made> last = made(query);
    return last && last->version == version_to_come(shown, is_choice) ? last : std::nullopt;
  };
  if (const std::optional<Made> last = fresh()) return last->page;
  const std::unique_lock making(making_, kPatience);
  if (!making.owns_lock()) return plain(503, "The page takes long to make; try again.\n");
  if (const std::optional<Made> last = fresh()) return last->page;  // somebody was faster
  const std::optional<Made> last = made(query);
  Made page = make(shown, is_choice, last ? last->records : std::make_shared<RecordsOfRuns>());
  const std::scoped_lock lock(mutex_);
  pages_[query] = page;
  if (pages_.size() > kMostPages)
    pages_.erase(std::ranges::min_element(pages_, {}, [](const auto& each) { return each.second.at; }));
  return page.page;
}

RunData Site::read(const std::filesystem::path& run, size_t most, RecordsOfRuns& records) {
  RunData data = read_run(run);
  auto place = records.find(run);
  if (place == records.end() || place->second.max_rows() != most)
    place = records.insert_or_assign(run, LiveTokenRecords(run, most)).first;
  place->second.read_new_files(kRowsAtOnce);
  data.recorded = place->second.tokens();
  return data;
}

/// A run that is just being replaced or resumed may be unreadable for a moment.
std::optional<RunData> Site::read_now(const WatchedRun& run, size_t most, RecordsOfRuns& records,
                                      std::vector<std::string>& unread) {
  constexpr int kTries = 3;
  for (int i = 1;; ++i) {
    try {
      return read(run.folder, most, records);
    } catch (const std::exception& error) {
      records.erase(run.folder);
      if (i == kTries) {
        unread.push_back(run.name + " cannot be shown now: " + error.what());
        return std::nullopt;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Site::Made Site::make(const WatchedRuns::List& shown, bool is_choice, std::shared_ptr<RecordsOfRuns> records) {
  const double begin = steady_seconds();
  LiveReport report{.shown = shown, .version = version_of(shown), .is_choice = is_choice};
  std::erase_if(*records, [&](const auto& each) {
    return std::ranges::find(shown, each.first, &WatchedRun::folder) == shown.end();
  });
  bool more = false;  // rows that were not read yet
  for (const WatchedRun& run : shown)
    if (run.glance.has_rows)
      if (std::optional<RunData> data = read_now(run, kMostRows / shown.size(), *records, report.unread)) {
        data->name = run.name;
        more = more || data->recorded.pending_steps > 0;
        report.read.push_back(std::move(*data));
      }
  const bool failed = !report.unread.empty();
  if (failed || more) report.version += "-" + std::to_string(static_cast<int64_t>(begin));  // to be made again
  Made made{.page = html(live_report_page(report)), .version = report.version, .records = std::move(records)};
  made.at = steady_seconds();
  made.next = made.at + std::max(failed ? kBetweenFailures : kBetween, kShare * (made.at - begin));
  return made;
}

}  // namespace keel
