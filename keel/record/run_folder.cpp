#include "keel/record/run_folder.h"

#include <algorithm>
#include <cmath>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/core/files/link.h"
#include "keel/record/run_data.h"
#include "keel/record/run_ownership.h"
#include "keel/record/tokens/token_file.h"
#include "keel/record/tools/event_texts.h"

namespace keel {
namespace {

constexpr const char *kMetrics = "metrics.jsonl", *kSamples = "samples.jsonl", *kLog = "log.txt",
                     *kConfig = "config.yaml", *kUsed = "used.json", *kReport = "report.html",
                     *kCheckpoints = "checkpoints", *kReference = "reference", *kEvents = "tensorboard",
                     *kTokens = "tokens";

/// Whether something other than an empty folder is there; a run that was killed before its configuration had its name
/// is nothing. What cannot be looked at (no permission, a name too long) is left for the first write to explain.
bool is_taken(const std::filesystem::path& path) {
  std::error_code unseen;
  if (!std::filesystem::exists(path, unseen)) return false;
  if (!std::filesystem::is_directory(path)) return true;
  const std::vector<std::string> names = list_directory(path);
  return !names.empty() && names != std::vector<std::string>{"config.yaml.partial"};
}

/// Whether a run writes a file of this name, or one that is half-written or was damaged.
bool is_file_of_a_run(std::string name) {
  constexpr std::string_view kPartial = ".partial", kDamaged = ".damaged";
  if (name.ends_with(kPartial)) name.resize(name.size() - kPartial.size());
  for (const char* rows : {kMetrics, kSamples}) {  // leave_unchanged_lines() keeps damaged ones, numbered
    if (!name.starts_with(rows + std::string(kDamaged))) continue;
    const std::string number = name.substr(std::string_view(rows).size() + kDamaged.size());
    return number.empty() || (number.starts_with('-') && number.size() > 1 &&
                              number.find_first_not_of("0123456789", 1) == std::string::npos);
  }
  for (const char* own : {kMetrics, kSamples, kLog, kConfig, kUsed, kReport})
    if (name == own) return true;
  return false;
}

/// Removes the files of a folder that `is_own` accepts by their names, and the folder if none is left.
void remove_files(const std::filesystem::path& folder, const std::function<bool(const std::string&)>& is_own) {
  if (link_target(folder) || !is_folder(folder)) return;
  for (const std::string& name : list_directory(folder))
    if (is_own(name)) remove_file(folder / name);
  remove_if_empty(folder);
}

void remove_checkpoints(const std::filesystem::path& checkpoints, const std::string& run) {
  if (!is_folder(checkpoints)) return;
  remove_leftovers(checkpoints, run);
  for (const std::string& name : list_directory(checkpoints))
    if (is_own_checkpoint(checkpoints / name, run)) remove_own_folder(checkpoints / name, run);
  if (is_checkpoint_name(link_target(checkpoints / kBestCheckpoint).value_or("")))
    remove_file(checkpoints / kBestCheckpoint);
  for (const char* name : {"LATEST", "LATEST.partial", "best.partial"}) remove_file(checkpoints / name);
  remove_if_empty(checkpoints);
}

/// Removes a run from its folder: the id in used.json and the heading of config.yaml come last, since a replacement
/// that is killed half-way needs them when it is repeated. What the run did not write stays.
void remove_run(const std::filesystem::path& path) {
  const std::string run = find_run_id(path);
  remove_checkpoints(path / kCheckpoints, run);
  if (is_own_reference(path / kReference, run)) remove_own_folder(path / kReference, run);
  remove_leftovers(path, run);
  remove_files(path / kEvents, [&](const std::string& name) { return EventFile::is_own(name, run); });
  remove_files(path / kTokens, [](const std::string& name) { return TokenFile::parse_step(name) >= 0; });
  for (const std::string& name : list_directory(path))
    if (is_file_of_a_run(name) && name != kUsed && name != kConfig) remove_file(path / name);
  for (const char* name : {kUsed, kConfig}) remove_file(path / name);
}

/// A row without numbers that JSON cannot hold.
Json finite(const Json& row) {
  Json result = Json::object();
  for (const auto& [key, value] : row.items())
    if (!value.is_number_float() || std::isfinite(value.get<double>())) result[key] = value;
  return result;
}

}  // namespace

RunFolder::RunFolder(LockedDirectory directory, std::string_view config_yaml)
    : directory_(std::move(directory)),
      config_yaml_(config_yaml),
      metrics_(GrowingFile::open(path() / kMetrics)),
      samples_(GrowingFile::open(path() / kSamples)),
      log_(GrowingFile::open(path() / kLog)) {}

bool RunFolder::contains_run(const std::filesystem::path& path) {
  const std::filesystem::path config = path / kConfig;
  if (!find_run_id(path).empty()) return true;
  return path_exists(config) && read_file(config).starts_with("# " + std::string(kConfigHeading));
}

bool RunFolder::belongs_to_run(const std::filesystem::path& path) {
  std::error_code unseen;
  std::filesystem::path folder = std::filesystem::weakly_canonical(std::filesystem::absolute(path), unseen);
  while (folder.has_relative_path()) {
    const std::string name = folder.filename().string();  // in each folder above the file, what leads to it
    folder = folder.parent_path();
    const bool is_named_so = name == kCheckpoints || name == kReference || name == kEvents || name == kTokens ||
                             (name != kReport && is_file_of_a_run(name));
    if ((is_named_so && contains_run(folder)) || is_checkpoint(folder)) return true;
  }
  return false;
}

void RunFolder::require_outside_run(const std::filesystem::path& path) {
  if (belongs_to_run(path))
    fail(ExitCode::kBadConfiguration, path.string(), ": is a file of a run. Fix: choose another name");
}

void RunFolder::require_free(const std::filesystem::path& path, bool replace) {
  if (!is_taken(path)) return;
  if (!contains_run(path))
    fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(), " exists already and holds no run (no config.yaml ",
         "that a run has written), so that a run neither goes on there nor replaces it. Choose another run.dir, or ",
         "empty it yourself");
  if (!replace)
    fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(),
         " exists already. Continue it with --resume, replace it with --overwrite, or choose another run.dir");
}

RunFolder RunFolder::create(const std::filesystem::path& path, bool replace, std::string_view config_yaml) {
  require_free(path, replace);
  create_directories(path);
  LockedDirectory directory = lock(path);
  require_free(path, replace);  // Another process may have been faster.
  remove_run(path);
  write_atomically(path / kConfig, config_yaml);
  return RunFolder(std::move(directory), config_yaml);
}

LockedDirectory RunFolder::lock(const std::filesystem::path& path) {
  std::optional<LockedDirectory> directory = LockedDirectory::lock(path);
  if (!directory)
    fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(),
         " is in use by another process. Wait for it, stop it, or choose another run.dir");
  return std::move(*directory);
}

namespace {

/// used.json's list of files that rewards come from, "PATH FINGERPRINT" each; nothing where there is none.
std::vector<std::string> reward_files_in(const std::filesystem::path& used) {
  std::vector<std::string> files;
  for (const Json& file : json_if_any(used).value("reward.files", Json::array()))
    if (file.is_string()) files.push_back(file.get<std::string>());
  return files;
}

/// Where the blank before a fingerprint is: "sha256:...", "no file" or "123 bytes".
size_t fingerprint_in(const std::string& file) {
  const size_t last = file.rfind(' ');
  return file.find("sha256:", last) == last + 1 ? last : file.rfind(' ', last - 1);
}

}  // namespace

std::vector<std::string> RunFolder::record_used_settings(Json settings, const std::string& run) const {
  const std::vector<std::string> before = reward_files_in(path() / kUsed);
  settings["run.id"] = run;
  const std::string text = settings.dump(2, ' ', false, Json::error_handler_t::replace);
  write_atomically(path() / kUsed, escape_json_controls(text) + "\n");
  std::vector<std::string> notes;
  const auto name_of = [](const std::string& file) { return file.substr(0, fingerprint_in(file)); };
  const auto sum_of = [](const std::string& file) { return file.substr(fingerprint_in(file) + 1); };
  const std::vector<std::string> files = reward_files_in(path() / kUsed);
  for (size_t i = 0; i < files.size(); ++i) {
    const std::filesystem::path file = name_of(files[i]);
    auto then = std::ranges::find(before, file.string(), name_of);
    const bool is_there = then != before.end();
    if (!is_there && i < before.size() && std::filesystem::path(name_of(before[i])).filename() == file.filename())
      then = before.begin() + static_cast<std::ptrdiff_t>(i);  // a project that was moved
    if (then != before.end() && sum_of(*then) != sum_of(files[i]))
      notes.push_back(str_cat("reward file ", file.string(),
                              is_there ? " was changed" : " is another than " + name_of(*then), ": ", sum_of(*then),
                              " when the run was last started, ", sum_of(files[i]), " now"));
  }
  return notes;
}

namespace {

/// Brings the rows back to what they were at a checkpoint; a log that was changed goes on as it is.
void reopen_rows(const std::filesystem::path& path, const LineChecksums& remembered, std::vector<std::string>& notes) {
  const std::optional<std::string> change = find_changed_line(path, remembered);
  if (!change) return cut_to_lines(path, remembered.size());
  if (path.filename() == kLog)
    return notes.push_back(path.string() + ": " + *change + "; it goes on from what there is");
  const std::optional<std::filesystem::path> kept = leave_unchanged_lines(path, remembered);
  notes.push_back(path.string() + ": " + *change + "; the rows that are as they were stay" +
                  (kept ? ", and " + kept->string() + " is the file as it was" : ""));
}

}  // namespace

RunFolder RunFolder::reopen(LockedDirectory directory, const Lines& lines, std::string_view config_yaml,
                            std::vector<std::string>& notes) {
  const std::filesystem::path run = directory.path();
  write_atomically(run / kConfig, config_yaml);
  for (const auto& [name, remembered] :
       {std::pair{kMetrics, &lines.metrics}, {kSamples, &lines.samples}, {kLog, &lines.log}})
    reopen_rows(run / name, *remembered, notes);
  return RunFolder(std::move(directory), config_yaml);
}

void RunFolder::write(const std::function<void()>& action) const {
  try {
    action();
  } catch (const RunWriteError&) {
    throw;
  } catch (const Error& error) {
    throw RunWriteError(directory_.current_path()
                            ? error.what()
                            : "run.dir: " + path().string() + " was removed while the run went on");
  }
}

void RunFolder::require_rows() const {
  for (const auto& [name, rows] : {std::pair{kMetrics, &metrics_}, {kSamples, &samples_}})
    if (!rows->has_its_name())
      fail(ExitCode::kHealthGuard, (path() / name).string(), " was removed or replaced while the run went on");
}

std::string RunFolder::add_metrics(const Json& row) {
  Json stamped = finite(row);
  stamped[kClockMetric] = seconds_since_1970();
  std::string line = json_line(stamped);
  write([&] {
    require_rows();
    metrics_.add(line);
    if (events_) events_->add(exported_step(metric_row(line)));
  });
  return line;
}

void RunFolder::add_sample(const Json& row) {
  write([&] { samples_.add(json_line(finite(row))); });
  if (events_) events_->add_sample(exported_sample(row));
}

void RunFolder::write_events() {
  const std::filesystem::path folder = path() / kEvents;
  if (path_exists(folder) && !is_folder(folder)) move_aside(folder);
  events_ = EventFile::begin(folder, config_yaml_, find_run_id(path()));
  const std::vector<ExportedSample> samples = exported_samples(path());
  auto sample = samples.begin();
  for_each_metric_row(path(), [&](MetricRow row) {
    for (; sample != samples.end() && sample->step <= row.step; ++sample) events_->add_sample(*sample);
    events_->add(exported_step(std::move(row)));
  });
  events_->sync();
  events_->replace_older();
}

void RunFolder::remove_tokens_after(int64_t step) const {
  require_no_link(tokens());
  if (!is_folder(tokens())) return;
  for (const std::string& name : list_directory(tokens()))
    if (TokenFile::parse_step(name) > step || (TokenFile::parse_step(name) >= 0 && name.ends_with(".partial")))
      remove_file(tokens() / name);
}

void RunFolder::log(std::string_view line) {
  write([&] { log_.add(escape_controls(line)); });
}

RunFolder::Lines RunFolder::sync() {
  metrics_.sync();
  samples_.sync();
  log_.sync();
  if (events_) events_->sync();
  return {metrics_.checksums(), samples_.checksums(), log_.checksums()};
}

}  // namespace keel
