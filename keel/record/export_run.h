#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "keel/record/tools/exported_run.h"

namespace keel {

/// Reads a run for export. Merges a step with the evaluation after it. A non-empty `metrics` selects metrics; unknown
/// names are an Error (exit code 2).
ExportedRun read_for_export(const std::filesystem::path& run, const std::vector<std::string>& metrics = {});

// Each exports the run in one format and returns the path. Existing targets (unless `overwrite`) and files of runs are
// an Error (exit code 2).

std::filesystem::path export_csv(const ExportedRun& run, const std::filesystem::path& file, bool overwrite);
/// Writes an event file into a folder without one.
std::filesystem::path export_tensorboard(const ExportedRun& run, const std::filesystem::path& folder, bool overwrite);
/// Writes a "wandb" (offline) or "mlflow" run below the folder with the package of this Python interpreter.
std::string export_to_tracker(const std::string& tool, const std::string& python, const ExportedRun& run,
                              const std::filesystem::path& folder, bool overwrite);

}  // namespace keel
