#include "keel/record/run_folder.h"

#include <cmath>

#include "keel/core/error.h"

namespace keel {
namespace {

bool is_empty_folder(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) && std::filesystem::is_empty(path);
}

/// A row without numbers that JSON cannot hold.
Json finite(const Json& row) {
  Json result = Json::object();
  for (const auto& [key, value] : row.items())
    if (!value.is_number_float() || std::isfinite(value.get<double>())) result[key] = value;
  return result;
}

}  // namespace

RunFolder::RunFolder(const std::filesystem::path& path)
    : path_(path),
      metrics_(AppendFile::open(path / "metrics.jsonl")),
      samples_(AppendFile::open(path / "samples.jsonl")),
      log_(AppendFile::open(path / "log.txt")) {}

RunFolder RunFolder::create(const std::filesystem::path& path, bool replace, std::string_view config_yaml) {
  if (std::filesystem::exists(path) && !is_empty_folder(path)) {
    if (!replace)
      fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(),
           " exists already. Continue it with --resume, replace it with --overwrite, or choose another run.dir");
    if (!std::filesystem::exists(path / "config.yaml"))
      fail(ExitCode::kBadConfiguration, "run.dir: ", path.string(),
           " holds no run (no config.yaml), so it is not replaced. Choose another run.dir, or empty it yourself");
    remove_tree(path);
  }
  create_directories(path);
  write_atomically(path / "config.yaml", config_yaml);
  return RunFolder(path);
}

RunFolder RunFolder::reopen(const std::filesystem::path& path, const Sizes& sizes) {
  cut_to_size(path / "metrics.jsonl", sizes.metrics);
  cut_to_size(path / "samples.jsonl", sizes.samples);
  cut_to_size(path / "log.txt", sizes.log);
  return RunFolder(path);
}

void RunFolder::add_metrics(const Json& row) { metrics_.append_line(finite(row).dump()); }

void RunFolder::add_sample(const Json& row) {
  samples_.append_line(finite(row).dump(-1, ' ', false, Json::error_handler_t::replace));
}

void RunFolder::log(std::string_view line) { log_.append_line(line); }

RunFolder::Sizes RunFolder::sync() {
  metrics_.sync();
  samples_.sync();
  log_.sync();
  return {metrics_.size(), samples_.size(), log_.size()};
}

}  // namespace keel
