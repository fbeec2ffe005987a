#include "keel/record/run_folder.h"

#include <cmath>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"

namespace keel {
namespace {

constexpr const char *kMetrics = "metrics.jsonl", *kSamples = "samples.jsonl", *kLog = "log.txt",
                     *kConfig = "config.yaml";

/// Whether something other than an empty folder is there; a run that was killed before its configuration had its name
/// is nothing. What cannot be looked at (no permission, a name too long) is left for the first write to explain.
bool is_taken(const std::filesystem::path& path) {
  std::error_code unseen;
  if (!std::filesystem::exists(path, unseen)) return false;
  if (!std::filesystem::is_directory(path)) return true;
  const std::vector<std::string> names = list_directory(path);
  return !names.empty() && names != std::vector<std::string>{"config.yaml.partial"};
}

/// Empties a run's folder, config.yaml last: by that name a folder is known to hold a run, so that a replacement that
/// is killed half-way can be asked for again.
void empty_run(const std::filesystem::path& path) {
  for (const std::string& name : list_directory(path))
    if (name != kConfig) remove_tree(path / name);
  remove_tree(path / kConfig);
}

/// A row without numbers that JSON cannot hold.
Json finite(const Json& row) {
  Json result = Json::object();
  for (const auto& [key, value] : row.items())
    if (!value.is_number_float() || std::isfinite(value.get<double>())) result[key] = value;
  return result;
}

}  // namespace

RunFolder::RunFolder(HeldFolder held)
    : held_(std::move(held)),
      metrics_(GrowingFile::open(path() / kMetrics)),
      samples_(GrowingFile::open(path() / kSamples)),
      log_(GrowingFile::open(path() / kLog)) {}

void RunFolder::require_free(const std::filesystem::path& path, bool replace) {
  if (!is_taken(path)) return;
  if (!replace)
    fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(),
         " exists already. Continue it with --resume, replace it with --overwrite, or choose another run.dir");
  if (!std::filesystem::exists(path / kConfig))
    fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(),
         " holds no run (no config.yaml), so it is not replaced. Choose another run.dir, or empty it yourself");
}

RunFolder RunFolder::create(const std::filesystem::path& path, bool replace, std::string_view config_yaml) {
  require_free(path, replace);
  create_directories(path);
  HeldFolder held = claim(path);
  require_free(path, replace);  // again, for another process may have been faster
  empty_run(path);
  write_atomically(path / kConfig, config_yaml);
  return RunFolder(std::move(held));
}

HeldFolder RunFolder::claim(const std::filesystem::path& path) {
  std::optional<HeldFolder> held = HeldFolder::claim(path);
  if (!held)
    fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(),
         " is in use by another process. Wait for it, stop it, or choose another run.dir");
  return std::move(*held);
}

void RunFolder::require_unchanged(const HeldFolder& held, const Lines& lines) {
  for (const auto& [name, remembered] : {std::pair{kMetrics, &lines.metrics}, {kSamples, &lines.samples}})
    if (const auto change = find_changed_line(held.path() / name, *remembered))
      fail(ExitCode::kBadInput, (held.path() / name).string(), ": ", *change,
           ", as the checkpoint remembers it; restore ",
           "the file from a copy, or go on with the rows that are as they were by --damaged-rows: the file as it is "
           "now ",
           "is then kept beside it");
}

void RunFolder::note_used(const Json& settings) const {
  write_atomically(path() / "used.json", settings.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

namespace {

/// Brings the rows back to what they were at a checkpoint.
void reopen_rows(const std::filesystem::path& path, const LineChecksums& remembered, std::vector<std::string>& notes) {
  const std::optional<std::string> change = find_changed_line(path, remembered);
  if (!change) return cut_to_lines(path, remembered.size());
  const std::optional<std::filesystem::path> kept = leave_unchanged_lines(path, remembered);
  notes.push_back(path.string() + ": " + *change + "; the rows that are as they were stay" +
                  (kept ? ", and " + kept->string() + " is the file as it was" : ""));
}

/// The same of the log, where it is what it was.
void reopen_log(const std::filesystem::path& path, const LineChecksums& remembered, std::vector<std::string>& notes) {
  const std::optional<std::string> change = find_changed_line(path, remembered);
  if (!change) return cut_to_lines(path, remembered.size());
  notes.push_back(path.string() + ": " + *change + "; it goes on from what there is");
}

}  // namespace

RunFolder RunFolder::reopen(HeldFolder held, const Lines& lines, std::string_view config_yaml,
                            std::vector<std::string>& notes) {
  write_atomically(held.path() / kConfig, config_yaml);
  reopen_rows(held.path() / kMetrics, lines.metrics, notes);
  reopen_rows(held.path() / kSamples, lines.samples, notes);
  reopen_log(held.path() / kLog, lines.log, notes);
  return RunFolder(std::move(held));
}

void RunFolder::add_metrics(const Json& row) { metrics_.add(json_line(finite(row))); }

void RunFolder::add_sample(const Json& row) { samples_.add(json_line(finite(row))); }

void RunFolder::log(std::string_view line) { log_.add(line); }

RunFolder::Lines RunFolder::sync() {
  metrics_.sync();
  samples_.sync();
  log_.sync();
  return {metrics_.checksums(), samples_.checksums(), log_.checksums()};
}

void RunFolder::require_own() {
  const char* gone = !metrics_.has_its_name() ? kMetrics : !samples_.has_its_name() ? kSamples : nullptr;
  if (!held_.is_at_its_path()) {
    const std::optional<std::filesystem::path> now = held_.whereabouts();
    std::error_code unseen;
    const char* other = std::filesystem::exists(path(), unseen) ? ", and what has its name now is not this run's" : "";
    throw FolderLost("run.dir: " + path().string() + " was " + (now ? "moved to " + now->string() : "removed") +
                         " while the run went on" + other,
                     gone ? std::nullopt : now);
  }
  if (gone) throw FolderLost((path() / gone).string() + " was removed or replaced while the run went on", std::nullopt);
  if (log_.has_its_name()) return;
  log_ = GrowingFile::open(path() / kLog);
  log_.add("the log was removed or replaced while the run went on; it goes on here");
}

RunFolder RunFolder::copy_to(const std::filesystem::path& path, std::string_view config_yaml) const {
  RunFolder copy = create(path, /*replace=*/false, config_yaml);
  metrics_.copy_to(path / kMetrics);
  samples_.copy_to(path / kSamples);
  log_.copy_to(path / kLog);
  return RunFolder(std::move(copy.held_));
}

}  // namespace keel
