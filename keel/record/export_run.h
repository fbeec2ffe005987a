#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "keel/record/tools/exported_run.h"

namespace keel {

/// Reads what other tools are told of a run. A step and the evaluation after it are one. Where `metrics` are named, the
/// steps have no others, and a name that the run does not have is refused (exit code 2).
ExportedRun read_for_export(const std::filesystem::path& run, const std::vector<std::string>& metrics = {});

// Each writes the run in a form of its own. What is there already is refused (exit code 2) unless `overwrite`; so is a
// place among a run's own files. Each returns what it made.

std::filesystem::path export_csv(const ExportedRun& run, const std::filesystem::path& file, bool overwrite);
/// An event file in a folder that has none.
std::filesystem::path export_tensorboard(const ExportedRun& run, const std::filesystem::path& folder, bool overwrite);
/// A run of "wandb" (offline) or "mlflow" below the folder, made by the package of this Python interpreter.
std::string export_to_tracker(const std::string& tool, const std::string& python, const ExportedRun& run,
                              const std::filesystem::path& folder, bool overwrite);

}  // namespace keel
