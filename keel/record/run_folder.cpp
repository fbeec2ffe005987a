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

/// Returns whether the path exists and is not an empty folder, apart from the partial file of a run that was killed at
/// its start. Other errors, such as missing permission, appear at the first write.
bool is_taken(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return false;
  if (!std::filesystem::is_directory(path)) return true;
  const std::vector<std::string> names = list_directory(path);
  return !names.empty() && names != std::vector<std::string>{"config.yaml.partial"};
}

/// Returns whether a run writes files of this name, including partial files and copies of damaged ones.
bool is_run_file_name(std::string name) {
  constexpr std::string_view kPartial = ".partial", kDamaged = ".damaged";
  if (name.ends_with(kPartial)) name.resize(name.size() - kPartial.size());
  for (const char* rows : {kMetrics, kSamples}) {  // restore_unchanged_lines() numbers the copies
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

/// Removes a run, but no files of others. used.json and config.yaml come last, because a repeated replacement needs
/// them if this one is killed.
void remove_run(const std::filesystem::path& path) {
  const std::string run = find_run_id(path);
  remove_checkpoints(path / kCheckpoints, run);
  if (is_own_reference(path / kReference, run)) remove_own_folder(path / kReference, run);
  remove_leftovers(path, run);
  remove_files(path / kEvents, [&](const std::string& name) { return EventFile::is_own(name, run); });
  remove_files(path / kTokens, [](const std::string& name) { return TokenFile::parse_step(name) >= 0; });
  for (const std::string& name : list_directory(path))
    if (is_run_file_name(name) && name != kUsed && name != kConfig) remove_file(path / name);
  for (const char* name : {kUsed, kConfig}) remove_file(path / name);
}

/// Returns whether a checkpoint of any run is in the folder; it may be damaged.
bool has_checkpoint(const std::filesystem::path& run) {
  const std::filesystem::path checkpoints = run / kCheckpoints;
  return is_folder(checkpoints) && std::ranges::any_of(list_directory(checkpoints), [&](const std::string& name) {
           return is_checkpoint(checkpoints / name);
         });
}

/// Removes NaN and infinity, which JSON does not support.
Json remove_non_finite(const Json& row) {
  Json result = Json::object();
  for (const auto& [key, value] : row.items())
    if (!value.is_number_float() || std::isfinite(value.get<double>())) result[key] = value;
  return result;
}

}  // namespace

RunFolder::RunFolder(LockedDirectory directory, std::string_view config_yaml)
    : directory_(std::move(directory)),
      config_yaml_(config_yaml),
      metrics_(ChecksummedFile::open(path() / kMetrics)),
      samples_(ChecksummedFile::open(path() / kSamples)),
      log_(std::make_shared<ChecksummedFile>(ChecksummedFile::open(path() / kLog))) {}

bool RunFolder::contains_run(const std::filesystem::path& path) {
  const std::filesystem::path config = path / kConfig;
  if (!find_run_id(path).empty()) return true;
  return path_exists(config) && read_file(config).starts_with("# " + std::string(kConfigHeading));
}

bool RunFolder::is_unsaved(const std::filesystem::path& path) {
  const bool was_saved = path_exists(path / kReport) || path_exists(path / kCheckpoints / "LATEST");
  return contains_run(path) && !was_saved && !has_checkpoint(path);
}

bool RunFolder::belongs_to_run(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::weakly_canonical(std::filesystem::absolute(path), ignored);
  while (folder.has_relative_path()) {
    const std::string name = folder.filename().string();  // of the path below `folder`
    folder = folder.parent_path();
    const bool is_run_name = name == kCheckpoints || name == kReference || name == kEvents || name == kTokens ||
                             (name != kReport && is_run_file_name(name));
    if ((is_run_name && contains_run(folder)) || is_checkpoint(folder)) return true;
  }
  return false;
}

void RunFolder::require_outside_run(const std::filesystem::path& path) {
  if (belongs_to_run(path)) fail(ExitCode::kBadConfiguration, path.string(), " belongs to a run. Choose another name");
}

bool RunFolder::require_free(const std::filesystem::path& path, bool replace) {
  if (!is_taken(path)) return false;
  if (!contains_run(path))
    fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(), " exists, but contains no run (no config.yaml ",
         "of a run), so it is neither resumed nor overwritten. Choose another run.dir, or empty this folder");
  if (!replace && !is_unsaved(path))
    fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(), " exists already",
         has_checkpoint(path) ? ". Continue it with --resume, replace" : ", without a checkpoint. Replace",
         " it with --overwrite, or choose another run.dir");
  return true;
}

RunFolder RunFolder::create(const std::filesystem::path& path, bool replace, std::string_view config_yaml) {
  require_free(path, replace);
  create_directories(path);
  LockedDirectory directory = lock(path);
  require_free(path, replace);  // another process may have created a run meanwhile
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

/// Returns the reward files in used.json, "PATH FINGERPRINT" each.
std::vector<std::string> read_reward_files(const std::filesystem::path& used) {
  std::vector<std::string> files;
  for (const Json& file : json_if_any(used).value("reward.files", Json::array()))
    if (file.is_string()) files.push_back(file.get<std::string>());
  return files;
}

/// Finds the blank before the fingerprint "sha256:...", "no file" or "123 bytes".
size_t find_fingerprint(const std::string& file) {
  const size_t last = file.rfind(' ');
  return file.find("sha256:", last) == last + 1 ? last : file.rfind(' ', last - 1);
}

}  // namespace

std::vector<std::string> RunFolder::record_used_settings(Json settings, const std::string& run) const {
  const std::vector<std::string> before = read_reward_files(path() / kUsed);
  settings["run.id"] = run;
  const std::string text = settings.dump(2, ' ', false, Json::error_handler_t::replace);
  write_atomically(path() / kUsed, escape_json_controls(text) + "\n");
  std::vector<std::string> notes;
  const auto path_of = [](const std::string& file) { return file.substr(0, find_fingerprint(file)); };
  const auto fingerprint_of = [](const std::string& file) { return file.substr(find_fingerprint(file) + 1); };
  const std::vector<std::string> files = read_reward_files(path() / kUsed);
  for (size_t i = 0; i < files.size(); ++i) {
    const std::filesystem::path file = path_of(files[i]);
    auto old = std::ranges::find(before, file.string(), path_of);
    const bool is_same_path = old != before.end();
    if (!is_same_path && i < before.size() && std::filesystem::path(path_of(before[i])).filename() == file.filename())
      old = before.begin() + static_cast<std::ptrdiff_t>(i);  // the project was moved
    if (old != before.end() && fingerprint_of(*old) != fingerprint_of(files[i]))
      notes.push_back(
          str_cat("reward file ", file.string(), is_same_path ? " was changed" : " differs from " + path_of(*old), ": ",
                  fingerprint_of(*old), " when the run was last started, ", fingerprint_of(files[i]), " now"));
  }
  return notes;
}

namespace {

/// Restores the rows of a checkpoint. The log is continued.
void reopen_rows(const std::filesystem::path& path, const LineChecksums& expected, std::vector<std::string>& notes) {
  const std::optional<std::string> change = find_changed_line(path, expected);
  const bool is_log = path.filename() == kLog;
  if (!change && !is_log) truncate_to_lines(path, expected.size());
  if (!change) return;
  if (is_log) return notes.push_back(path.string() + ": " + *change + "; the run appends to it");
  const std::optional<std::filesystem::path> kept = restore_unchanged_lines(path, expected);
  notes.push_back(path.string() + ": " + *change + "; unchanged rows were kept" +
                  (kept ? ", and the old file was copied to " + kept->string() : ""));
}

}  // namespace

RunFolder RunFolder::reopen(LockedDirectory directory, const Checksums& checksums, std::string_view config_yaml,
                            std::vector<std::string>& notes) {
  const std::filesystem::path run = directory.path();
  write_atomically(run / kConfig, config_yaml);
  for (const auto& [name, expected] :
       {std::pair{kMetrics, &checksums.metrics}, {kSamples, &checksums.samples}, {kLog, &checksums.log}})
    reopen_rows(run / name, *expected, notes);
  return RunFolder(std::move(directory), config_yaml);
}

void RunFolder::write(const std::function<void()>& action) const {
  try {
    action();
  } catch (const RunWriteError&) {
    throw;
  } catch (const Error& error) {
    throw RunWriteError(directory_.current_path() ? error.what()
                                                  : "run.dir: " + path().string() + " was removed during the run");
  }
}

void RunFolder::require_files_in_place() const {
  for (const auto& [name, rows] : {std::pair{kMetrics, &metrics_}, {kSamples, &samples_}})
    if (!rows->is_at_its_path())
      fail(ExitCode::kHealthGuard, (path() / name).string(), " was removed or replaced during the run");
}

std::string RunFolder::add_metrics(const Json& row) {
  Json stamped = remove_non_finite(row);
  stamped[kClockMetric] = seconds_since_1970();
  std::string line = json_line(stamped);
  write([&] {
    require_files_in_place();
    metrics_.add(line);
    if (events_) events_->add(make_exported_step(parse_metric_row(line)));
  });
  return line;
}

void RunFolder::add_sample(const Json& row) {
  write([&] { samples_.add(json_line(remove_non_finite(row))); });
  if (events_) events_->add_sample(make_exported_sample(row));
}

void RunFolder::write_events() {
  const std::filesystem::path folder = path() / kEvents;
  if (path_exists(folder) && !is_folder(folder)) move_aside(folder);
  events_ = EventFile::begin(folder, config_yaml_, find_run_id(path()));
  const std::vector<ExportedSample> samples = read_exported_samples(path());
  auto sample = samples.begin();
  for_each_metric_row(path(), [&](MetricRow row) {
    for (; sample != samples.end() && sample->step <= row.step; ++sample) events_->add_sample(*sample);
    events_->add(make_exported_step(std::move(row)));
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

std::function<void(std::string_view line)> RunFolder::log_writer() const {
  return [log = log_](std::string_view line) {
    try {
      log->add(line);
    } catch (const Error& error) {
      throw RunWriteError(error.what());
    }
  };
}

RunFolder::Checksums RunFolder::sync() {
  metrics_.sync();
  samples_.sync();
  log_->sync();
  if (events_) events_->sync();
  return {metrics_.checksums(), samples_.checksums(), log_->checksums()};
}

}  // namespace keel
