#include "keel/record/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/core/files/json_if_any.h"
#include "keel/core/files/link.h"
#include "keel/record/own_files.h"
#include "keel/record/run_data.h"
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

/// Removes a file, and of folders no more than an empty one. Whether nothing has the name any more.
bool remove_file(const std::filesystem::path& path) {
  return remove_of_tree(path, [](const std::string&) { return false; });
}

/// The same; what is a folder of somebody's is moved aside.
void make_free(const std::filesystem::path& path, std::vector<std::string>& others) {
  if (!remove_file(path)) others.push_back(move_aside(path, path)->filename().string());
}

/// Removes the checkpoints of a run, and their folder where nothing else is in it.
void remove_checkpoints(const std::filesystem::path& checkpoints, const std::string& run,
                        std::vector<std::string>& others) {
  if (!path_exists(checkpoints)) return;
  if (!is_folder(checkpoints)) return others.push_back(kCheckpoints);
  remove_leftovers(checkpoints, run);
  for (const std::string& name : list_directory(checkpoints)) {
    if (is_own_checkpoint(checkpoints / name, run)) remove_own_folder(checkpoints / name, run);
    const bool is_latest = name == "LATEST" || name == "LATEST.partial";
    const bool is_best = name == kBestCheckpoint || name == std::string(kBestCheckpoint) + ".partial";
    if (is_latest || (is_best && is_checkpoint_name(link_target(checkpoints / name).value_or(""))))
      remove_file(checkpoints / name);
  }
  for (const std::string& name : list_directory(checkpoints)) others.push_back(std::string(kCheckpoints) + "/" + name);
  remove_file(checkpoints);
}

/// Removes a run's event files or token records, whichever lie in its folder of this name; whether nothing else did.
bool remove_rows_for_tools(const std::filesystem::path& folder, const std::string& name, const std::string& run) {
  if ((name != kEvents && name != kTokens) || !is_folder(folder / name)) return false;
  return remove_of_tree(folder / name, [&](const std::string& file) {
    return name == kEvents ? EventFile::is_own(file, run) : TokenFile::step_of(file) >= 0;
  });
}

/// Removes a run from its folder: first what its id is needed for, which is in used.json, and config.yaml last, for by
/// its first line a folder is known to hold a run, so that a replacement that is killed half-way can be asked for
/// again. Returns the names of what is not the run's, and stays.
std::vector<std::string> remove_run(const std::filesystem::path& path) {
  const std::string run = own_run(path);
  std::vector<std::string> others;
  remove_checkpoints(path / kCheckpoints, run, others);
  if (is_own_reference(path / kReference, run)) remove_own_folder(path / kReference, run);
  remove_leftovers(path, run);
  for (const std::string& name : list_directory(path)) {
    if (name == kCheckpoints || name == kUsed || name == kConfig) continue;
    if (is_file_of_a_run(name))
      make_free(path / name, others);
    else if (!remove_rows_for_tools(path, name, run))
      others.push_back(name);
  }
  for (const char* name : {kUsed, kConfig}) make_free(path / name, others);
  return others;
}

/// A row without numbers that JSON cannot hold.
Json finite(const Json& row) {
  Json result = Json::object();
  for (const auto& [key, value] : row.items())
    if (!value.is_number_float() || std::isfinite(value.get<double>())) result[key] = value;
  return result;
}

}  // namespace

RunFolder::RunFolder(HeldFolder held, std::string_view config_yaml)
    : held_(std::move(held)),
      config_yaml_(config_yaml),
      metrics_(GrowingFile::open(path() / kMetrics)),
      samples_(GrowingFile::open(path() / kSamples)),
      log_(GrowingFile::open(path() / kLog)) {}

bool RunFolder::holds_run(const std::filesystem::path& path) {
  const std::filesystem::path config = path / kConfig;
  if (!own_run(path).empty()) return true;
  return path_exists(config) && read_file(config).starts_with("# " + std::string(kConfigHeading));
}

void RunFolder::require_free(const std::filesystem::path& path, bool replace) {
  if (!is_taken(path)) return;
  if (!holds_run(path))
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
  HeldFolder held = claim(path);
  require_free(path, replace);  // again, for another process may have been faster
  const std::vector<std::string> others = remove_run(path);
  write_atomically(path / kConfig, config_yaml);
  RunFolder folder(std::move(held), config_yaml);
  for (const std::string& name : others) folder.log(name + " is not a run's, and was left as it is");
  return folder;
}

namespace {

/// By the names of the folders above.
bool is_named_as_of_a_run(std::filesystem::path followed) {
  bool is_own = false;
  while (!is_own && followed.has_relative_path()) {
    const std::string name = followed.filename().string();  // in each folder above the file, what leads to it
    followed = followed.parent_path();
    const bool of_run = name == kCheckpoints || name == kReference || name == kEvents || name == kTokens ||
                        (name != kReport && is_file_of_a_run(name));
    const auto in_run = [&] { return path_exists(followed / kMetrics) || RunFolder::holds_run(followed); };
    is_own = (of_run && in_run()) || is_checkpoint(followed);
  }
  return is_own;
}

}  // namespace

bool RunFolder::is_of_a_run(const std::filesystem::path& path) {
  std::error_code unseen;
  return is_named_as_of_a_run(std::filesystem::weakly_canonical(full_path(path), unseen));
}

void RunFolder::require_not_of_a_run(const std::filesystem::path& path) {
  std::error_code unseen;
  const std::filesystem::path whole = full_path(path);
  if (is_named_as_of_a_run(std::filesystem::weakly_canonical(whole.parent_path(), unseen) / whole.filename()))
    fail(ExitCode::kBadConfiguration, "cannot write ", path,
         ": it is a run's own file, or lies among these; choose another name");
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

std::vector<std::string> RunFolder::note_used(Json settings, const std::string& run) const {
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
      notes.push_back(written("reward file ", file.string(),
                              is_there ? " was changed" : " is another than " + name_of(*then), ": ", sum_of(*then),
                              " when the run was last started, ", sum_of(files[i]), " now"));
  }
  return notes;
}

namespace {

/// A folder or a pipe in the place of a file that is nobody's data must not end a run. Lines of the log are added to
/// what is there, which must not be a file that a link leads to; the others are replaced, a link by a file.
std::vector<std::string> make_room(const std::filesystem::path& run) {
  std::vector<std::string> notes;
  for (const char* name : {kLog, kConfig, kUsed, kReport})
    if (const auto aside = name == kLog && link_target(run / name) ? move_aside(run / name, run / name)
                                                                   : make_room_for_file(run / name))
      notes.push_back((run / name).string() + " was no file; what had the name is " + aside->string() + " now");
  return notes;
}

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
  for (const std::string& note : make_room(held.path())) notes.push_back(note);
  write_atomically(held.path() / kConfig, config_yaml);
  reopen_rows(held.path() / kMetrics, lines.metrics, notes);
  reopen_rows(held.path() / kSamples, lines.samples, notes);
  reopen_log(held.path() / kLog, lines.log, notes);
  return RunFolder(std::move(held), config_yaml);
}

std::string RunFolder::add_metrics(const Json& row) {
  Json stamped = finite(row);
  stamped[kClockMetric] = seconds_since_1970();
  std::string line = json_line(stamped);
  metrics_.add(line);
  if (events_) events_->add(exported_step(metric_row(line)));
  return line;
}

void RunFolder::add_sample(const Json& row) {
  samples_.add(json_line(finite(row)));
  if (events_) events_->add_sample(exported_sample(row));
}

void RunFolder::write_events() {
  const std::filesystem::path folder = path() / kEvents;
  if (path_exists(folder) && !is_folder(folder))
    log(folder.string() + " was no folder; what had the name is " + move_aside(folder, folder)->string() + " now");
  events_ = EventFile::begin(folder, config_yaml_, own_run(path()));
  const std::vector<ExportedSample> samples = exported_samples(path());
  auto sample = samples.begin();
  for_each_metric_row(path(), [&](MetricRow row) {
    for (; sample != samples.end() && sample->step <= row.step; ++sample) events_->add_sample(*sample);
    events_->add(exported_step(std::move(row)));
  });
  events_->sync();
  events_->replace_older();
}

void RunFolder::forget_tokens_after(int64_t step) const {
  require_no_link(tokens());
  if (!is_folder(tokens())) return;
  for (const std::string& name : list_directory(tokens()))
    if (TokenFile::step_of(name) > step || (TokenFile::step_of(name) >= 0 && name.ends_with(".partial")))
      remove_file(tokens() / name);
}

void RunFolder::log(std::string_view line) { log_.add(escape_controls(line)); }

RunFolder::Lines RunFolder::sync() {
  metrics_.sync();
  samples_.sync();
  log_.sync();
  if (events_) events_->sync();
  return {metrics_.checksums(), samples_.checksums(), log_.checksums()};
}

void RunFolder::require_found() const {
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
}

void RunFolder::require_own() {
  require_found();
  for (const GrowingFile* rows : {&metrics_, &samples_})
    if (rows->failure()) throw FolderLost("the run cannot write on where it is: " + *rows->failure(), std::nullopt);
  try {
    look_after_others();
  } catch (const Error& error) {
    if (error.code() == ExitCode::kHealthGuard) throw;
    require_found();  // it may have gone in between
    throw FolderLost(std::string("the run cannot write on where it is: ") + error.what(), std::nullopt);
  }
}

void RunFolder::look_after_others() {
  const std::vector<std::string> notes = make_room(path());
  if (!log_.has_its_name()) {
    log_ = GrowingFile::open(path() / kLog);
    log("the log was removed or replaced while the run went on; it goes on here");
  }
  for (const std::string& note : notes) log(note);
  if (events_ && !events_->has_its_name()) {
    write_events();
    log("the event file was removed while the run went on; it is written again");
  }
  if (path_exists(path() / kConfig)) return;
  write_atomically(path() / kConfig, config_yaml_);
  log("config.yaml was removed while the run went on; it is written again");
}

std::string RunFolder::free_name_beside(const std::filesystem::path& run) {
  const std::string name = (run / "").parent_path().string() + ".rescued-" + std::to_string(getpid());
  std::string free = name;
  std::error_code unseen;
  for (int number = 2; std::filesystem::exists(std::filesystem::symlink_status(free, unseen)); ++number)
    free = name + "-" + std::to_string(number);
  return free;
}

RunFolder RunFolder::copy_to(const std::filesystem::path& path, std::string_view config_yaml) const {
  RunFolder copy = create(path, /*replace=*/false, config_yaml);
  metrics_.copy_to(path / kMetrics);
  samples_.copy_to(path / kSamples);
  log_.copy_to(path / kLog);
  return RunFolder(std::move(copy.held_), config_yaml);
}

}  // namespace keel
