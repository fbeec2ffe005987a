#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "keel/record/tools/exported_run.h"

namespace keel {

// A run in a file store of MLflow: STORE/EXPERIMENT/RUN, where meta.yaml says what each folder is, and a metric, a
// parameter or a tag is a file that has its name.

/// The number of the experiment that all runs belong to, and its folder's name; its name is "keel".
inline constexpr const char* kMlflowExperiment = "107101101108";  // k, e, e, l

/// The text of STORE/EXPERIMENT/meta.yaml; `folder` is the experiment's.
std::string mlflow_experiment(const ExportedRun& run, const std::filesystem::path& folder);

/// The files of a run by their paths below its folder, STORE/EXPERIMENT/ID.
std::map<std::string, std::string> mlflow_run(const ExportedRun& run, const std::filesystem::path& folder);

/// The names under which metrics or parameters are kept: MLflow has letters, digits and "_-. :/" in names, and takes
/// them for paths. "eval/pass@4" is "eval/pass_at_4"; a name that would then be another's, or the folder that another's
/// is in, ends in "_".
std::map<std::string, std::string> mlflow_names(const std::set<std::string>& names);

}  // namespace keel
