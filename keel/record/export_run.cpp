#include "keel/record/export_run.h"

#include <algorithm>
#include <set>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/hash.h"
#include "keel/core/files/json_file.h"
#include "keel/core/files/locked_directory.h"
#include "keel/core/nearest.h"
#include "keel/core/strings.h"
#include "keel/record/run_data.h"
#include "keel/record/run_folder.h"
#include "keel/record/run_ownership.h"
#include "keel/record/tools/csv.h"
#include "keel/record/tools/event_file.h"
#include "keel/record/tools/tracker_bridge.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

/// Returns the run's id, or a hash if it has none that can be part of a file name.
std::string export_id(const fs::path& folder, const ExportedRun& run) {
  constexpr size_t kMaxLength = 32, kHashDigits = 16;
  const std::string id = find_run_id(folder);
  const auto is_alphanumeric = [](char c) { return is_letter(c) || is_digit(c); };
  if (!id.empty() && id.size() <= kMaxLength && std::all_of(id.begin(), id.end(), is_alphanumeric)) return id;
  return sha256_hex(run.name + "\n" + run.config).substr(0, kHashDigits);
}

/// A locked folder is a running run. Otherwise the newest checkpoint tells whether the run finished.
const char* run_status(const fs::path& folder) {
  if (!LockedDirectory::lock(folder)) return "running";
  return is_finished(folder) ? "finished" : "stopped";
}

/// Keeps only these metrics; removes histograms and texts.
void keep_metrics(ExportedRun& run, const std::vector<std::string>& names) {
  std::set<std::string> known;
  for (const ExportedStep& step : run.steps)
    for (const auto& [name, value] : step.values) known.insert(name);
  for (const std::string& name : names) {
    if (known.contains(name)) continue;
    const std::vector<std::string> all(known.begin(), known.end());
    const std::optional<std::string> suggestion = nearest_name(name, all);
    fail(ExitCode::kBadConfiguration, "--metric: the run ", run.name, " has no metric ", name, "; ",
         suggestion ? "did you mean " + *suggestion + "?" : "it has " + joined(all));
  }
  for (ExportedStep& step : run.steps) {
    std::erase_if(step.values, [&](const auto& value) {
      return value.first != kClockMetric && std::find(names.begin(), names.end(), value.first) == names.end();
    });
    step.histograms.clear();
    step.texts.clear();
  }
  std::erase_if(run.steps, [](const ExportedStep& step) {
    return step.values.empty() || (step.values.size() == 1 && step.values.contains(kClockMetric));
  });
  run.samples.clear();
}

/// Adds an evaluation to the step before it.
void add_evaluation(const ExportedStep& evaluation, ExportedStep& step) {
  step.values.insert(evaluation.values.begin(), evaluation.values.end());
  step.histograms.insert(evaluation.histograms.begin(), evaluation.histograms.end());
  step.texts.insert(evaluation.texts.begin(), evaluation.texts.end());
}

void require_free_target(const fs::path& target, bool overwrite) {
  RunFolder::require_outside_run(target);
  if (path_exists(target) && !overwrite)
    fail(ExitCode::kBadConfiguration, target.string(), " exists already; choose another name, or replace it with ",
         "--overwrite");
}

}  // namespace

ExportedRun read_for_export(const fs::path& folder, const std::vector<std::string>& metrics) {
  ExportedRun run;
  run.name = run_name(folder);
  for_each_metric_row(folder, [&](MetricRow row) {
    ExportedStep step = make_exported_step(std::move(row));
    if (run.steps.empty() || run.steps.back().step != step.step)
      run.steps.push_back(std::move(step));
    else  // an evaluation; its `updates` are those of the step
      add_evaluation(step, run.steps.back());
  });
  run.samples = read_exported_samples(folder);
  if (run.steps.empty())
    fail(ExitCode::kBadInput, (folder / "metrics.jsonl").string(), ": has no rows yet; export it after the first step");
  constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 20;
  if (path_exists(folder / "config.yaml")) run.config = read_file(folder / "config.yaml", kMaxConfigBytes);
  run.id = export_id(folder, run);
  run.settings = json_if_any(folder / "used.json");
  run.status = run_status(folder);
  if (!metrics.empty()) keep_metrics(run, metrics);
  return run;
}

fs::path export_csv(const ExportedRun& run, const fs::path& file, bool overwrite) {
  require_free_target(file, overwrite);
  write_atomically(file, csv_table(run), overwrite ? Existing::kReplaced : Existing::kStays);
  return file;
}

fs::path export_tensorboard(const ExportedRun& run, const fs::path& folder, bool overwrite) {
  if (path_exists(folder) && is_folder(folder)) {
    for (const std::string& name : list_directory(folder)) {
      const bool is_own = EventFile::is_own(name, run.id);
      if (name.find("tfevents") != std::string::npos && !(overwrite && is_own))
        fail(ExitCode::kBadConfiguration, folder.string(), " contains the event file ", name,
             is_own ? "" : " of another run", "; TensorBoard would mix the curves. Choose another folder",
             is_own ? ", or replace it with --overwrite" : "");
    }
  }
  EventFile file = EventFile::begin(folder, run.config, run.id);
  try {
    auto sample = run.samples.begin();
    for (const ExportedStep& step : run.steps) {
      for (; sample != run.samples.end() && sample->step <= step.step; ++sample) file.add_sample(*sample);
      file.add(step);
    }
    file.sync();
  } catch (...) {  // such as a full disk: an incomplete file would look complete
    remove_tree(file.path());
    throw;
  }
  file.replace_older();
  return file.path();
}

std::string export_to_tracker(const std::string& tool, const std::string& python, const ExportedRun& run,
                              const fs::path& folder, bool overwrite) {
  if (path_exists(folder) && !is_folder(folder))
    fail(ExitCode::kBadConfiguration, folder.string(), " is a file; choose a folder");
  TrackerBridge bridge(tool, python, "--" + tool);
  create_directories(folder);
  bridge.open({{"name", run.name},
               {"id", run.id},
               {"group", run.id},
               {"settings", run.settings},
               {"begin", run.steps.front().time},
               {"folder", full_path(folder)},
               {"overwrite", overwrite}});
  const auto require_success = [&](const std::optional<std::string>& failure) {
    if (failure) fail(ExitCode::kHealthGuard, "--", tool, ": the export failed: ", *failure);
  };
  for (const ExportedStep& step : run.steps) {
    Json row = step.values;
    row["step"] = step.step;
    row[kClockMetric] = step.time;
    require_success(bridge.add(json_line(row)));
  }
  require_success(bridge.end(run.status));
  return bridge.target();
}

}  // namespace keel
