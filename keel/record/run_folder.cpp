#include "keel/record/run_folder.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"

namespace keel {
namespace {

constexpr const char *kMetrics = "metrics.jsonl", *kSamples = "samples.jsonl", *kLog = "log.txt",
                     *kConfig = "config.yaml", *kUsed = "used.json", *kReport = "report.html",
                     *kCheckpoints = "checkpoints";

/// Whether something other than an empty folder is there; a run that was killed before its configuration had its name
/// is nothing. What cannot be looked at (no permission, a name too long) is left for the first write to explain.
bool is_taken(const std::filesystem::path& path) {
  std::error_code unseen;
  if (!std::filesystem::exists(path, unseen)) return false;
  if (!std::filesystem::is_directory(path)) return true;
  const std::vector<std::string> names = list_directory(path);
  return !names.empty() && names != std::vector<std::string>{"config.yaml.partial"};
}

/// Whether a name is this one, or that of something half-written, replaced or damaged beside it.
bool is_or_belongs_to(const std::string& name, const std::string& own) {
  return name == own || name == own + ".partial" || name == own + ".replaced" || name.starts_with(own + ".damaged");
}

/// Removes the checkpoints of a run, and their folder where nothing else is in it.
void remove_checkpoints(const std::filesystem::path& checkpoints, std::vector<std::string>& others) {
  if (!is_folder(checkpoints)) return others.push_back(kCheckpoints);
  for (const std::string& name : list_directory(checkpoints)) {
    const std::filesystem::path stem = std::filesystem::path(name).stem();  // without .partial
    std::filesystem::path mine = checkpoints / name;
    if (RunFolder::is_checkpoint(mine)) {
      // Half of a checkpoint would not be known for one, where this ends in between.
      const std::filesystem::path half_removed = mine.string() + ".partial";
      remove_tree(half_removed);
      rename_directory(mine, half_removed);
      mine = half_removed;
    } else if (name != "LATEST" && name != "LATEST.partial" &&
               (name == stem.string() || !RunFolder::is_checkpoint_name(stem.string()))) {
      others.push_back(std::string(kCheckpoints) + "/" + name);
      continue;
    }
    remove_tree(mine);
  }
  if (list_directory(checkpoints).empty()) remove_tree(checkpoints);
}

/// Removes a run from its folder, config.yaml last: by that name a folder is known to hold a run, so that a replacement
/// that is killed half-way can be asked for again. Returns the names of what is not a run's, and stays.
std::vector<std::string> remove_run(const std::filesystem::path& path) {
  std::vector<std::string> others;
  for (const std::string& name : list_directory(path)) {
    const auto belongs = [&](const char* own) { return is_or_belongs_to(name, own); };
    if (name == kConfig) continue;
    if (name == kCheckpoints)
      remove_checkpoints(path / name, others);
    else if (belongs(kMetrics) || belongs(kSamples) || belongs(kLog) || belongs(kUsed) || belongs(kConfig) ||
             belongs(kReport) || belongs("reference"))
      remove_tree(path / name);
    else
      others.push_back(name);
  }
  remove_tree(path / kConfig);
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
  const std::vector<std::string> others = remove_run(path);
  write_atomically(path / kConfig, config_yaml);
  RunFolder folder(std::move(held), config_yaml);
  for (const std::string& name : others) folder.log(name + " is not a run's, and was left as it is");
  return folder;
}

bool RunFolder::is_checkpoint_name(const std::string& name) {
  return name.starts_with("step-") && name.size() > 5 && name.size() < 20 &&
         std::all_of(name.begin() + 5, name.end(), [](unsigned char c) { return std::isdigit(c); });
}

bool RunFolder::is_checkpoint(const std::filesystem::path& path) {
  return is_checkpoint_name(path.filename().string()) && is_folder(path) &&
         (path_exists(path / "manifest.json") || path_exists(path / "state.json"));
}

void RunFolder::require_not_of_a_run(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const std::filesystem::path folder = std::filesystem::path(full_path(path)).parent_path();
  std::error_code unseen;
  const bool in_run =
      std::filesystem::exists(folder / kConfig, unseen) || std::filesystem::exists(folder / kMetrics, unseen);
  const bool is_own = name == kConfig || name == kMetrics || name == kSamples || name == kLog || name == kUsed;
  if ((in_run && is_own) || is_checkpoint(folder))
    fail(ExitCode::kBadConfiguration, "cannot write ", path,
         ": it is a run's own file, which would be lost; choose another name");
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
  try {
    if (!path_exists(used)) return {};
    return read_json_file(used).value("reward.files", std::vector<std::string>());
  } catch (const Error&) {
    return {};  // it is written anew
  } catch (const Json::exception&) {
    return {};
  }
}

}  // namespace

std::vector<std::string> RunFolder::note_used(const Json& settings) const {
  const std::vector<std::string> before = reward_files_in(path() / kUsed);
  write_atomically(path() / kUsed, settings.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  std::vector<std::string> notes;
  for (const std::string& now : reward_files_in(path() / kUsed)) {
    const std::string name = now.substr(0, now.rfind(' ') + 1);
    for (const std::string& then : before)
      if (then.starts_with(name) && then != now)
        notes.push_back("reward file " + name + "was changed: " + then.substr(name.size()) +
                        " when the run was last started, " + now.substr(name.size()) + " now");
  }
  return notes;
}

namespace {

/// A folder or a pipe in the place of a file that is nobody's data must not end a run.
std::vector<std::string> make_room(const std::filesystem::path& run) {
  std::vector<std::string> notes;
  for (const char* name : {kLog, kConfig, kUsed, kReport})
    if (const auto aside = make_room_for_file(run / name))
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
  const std::vector<std::string> notes = make_room(path());
  if (!log_.has_its_name()) {
    log_ = GrowingFile::open(path() / kLog);
    log_.add("the log was removed or replaced while the run went on; it goes on here");
  }
  for (const std::string& note : notes) log_.add(note);
  if (path_exists(path() / kConfig)) return;
  write_atomically(path() / kConfig, config_yaml_);
  log_.add("config.yaml was removed while the run went on; it is written again");
}

RunFolder RunFolder::copy_to(const std::filesystem::path& path, std::string_view config_yaml) const {
  RunFolder copy = create(path, /*replace=*/false, config_yaml);
  metrics_.copy_to(path / kMetrics);
  samples_.copy_to(path / kSamples);
  log_.copy_to(path / kLog);
  return RunFolder(std::move(copy.held_), config_yaml);
}

}  // namespace keel
