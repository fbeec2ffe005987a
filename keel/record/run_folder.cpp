#include "keel/record/run_folder.h"

#include <cmath>

#include "keel/core/error.h"
#include "keel/core/json_file.h"

namespace keel {
namespace {

/// Whether something other than an empty folder is there. What cannot be looked at (no permission, a name too long) is
/// left for the first write to explain.
bool is_taken(const std::filesystem::path& path) {
  std::error_code unseen;
  if (!std::filesystem::exists(path, unseen)) return false;
  return !std::filesystem::is_directory(path) || !list_directory(path).empty();
}

/// Empties a run's folder, config.yaml last: by that name a folder is known to hold a run, so that a replacement that
/// is killed half-way can be asked for again.
void empty_run(const std::filesystem::path& path) {
  for (const std::string& name : list_directory(path))
    if (name != "config.yaml") remove_tree(path / name);
  remove_tree(path / "config.yaml");
}

/// A row without numbers that JSON cannot hold.
Json finite(const Json& row) {
  Json result = Json::object();
  for (const auto& [key, value] : row.items())
    if (!value.is_number_float() || std::isfinite(value.get<double>())) result[key] = value;
  return result;
}

}  // namespace

RunFolder::RunFolder(const std::filesystem::path& path, FileHandle claim)
    : path_(path),
      claim_(std::move(claim)),
      metrics_(AppendFile::open(path / "metrics.jsonl")),
      samples_(AppendFile::open(path / "samples.jsonl")),
      log_(AppendFile::open(path / "log.txt")) {}

void RunFolder::require_free(const std::filesystem::path& path, bool replace) {
  if (!is_taken(path)) return;
  if (!replace)
    fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(),
         " exists already. Continue it with --resume, replace it with --overwrite, or choose another run.dir");
  if (!std::filesystem::exists(path / "config.yaml"))
    fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(),
         " holds no run (no config.yaml), so it is not replaced. Choose another run.dir, or empty it yourself");
}

RunFolder RunFolder::create(const std::filesystem::path& path, bool replace, std::string_view config_yaml) {
  require_free(path, replace);
  create_directories(path);
  FileHandle claimed = claim(path);
  empty_run(path);
  write_atomically(path / "config.yaml", config_yaml);
  return RunFolder(path, std::move(claimed));
}

FileHandle RunFolder::claim(const std::filesystem::path& path) {
  std::optional<FileHandle> lock = lock_directory(path);
  if (!lock)
    fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(),
         " is in use by another process. Wait for it, stop it, or choose another run.dir");
  return std::move(*lock);
}

RunFolder RunFolder::reopen(const std::filesystem::path& path, FileHandle claim, const Sizes& sizes,
                            std::string_view config_yaml) {
  write_atomically(path / "config.yaml", config_yaml);
  cut_to_size(path / "metrics.jsonl", sizes.metrics);
  cut_to_size(path / "samples.jsonl", sizes.samples);
  cut_to_size(path / "log.txt", sizes.log);
  return RunFolder(path, std::move(claim));
}

void RunFolder::add_metrics(const Json& row) { metrics_.append_line(json_line(finite(row))); }

void RunFolder::add_sample(const Json& row) { samples_.append_line(json_line(finite(row))); }

void RunFolder::log(std::string_view line) { log_.append_line(line); }

RunFolder::Sizes RunFolder::sync() {
  metrics_.sync();
  samples_.sync();
  log_.sync();
  return {metrics_.size(), samples_.size(), log_.size()};
}

}  // namespace keel
