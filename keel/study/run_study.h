#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "keel/core/console.h"
#include "keel/study/outcome.h"
#include "keel/study/study.h"
#include "keel/study/study_folder.h"

namespace keel {

/// The results of a study after all runs.
struct StudyResult {
  std::vector<Outcome> outcomes;                // in the order of the runs
  std::map<std::string, std::string> failures;  // error messages by run
  std::map<std::string, int64_t> failed = {};   // number of failed runs by variant
  std::vector<std::string> unmeasured = {};     // a warning per entry of study.measures that no run has
};

/// Runs the missing runs of a study, each in its own process, several at a time, and resumes interrupted ones. A failed
/// run does not stop the others. The folder has configs/, logs/, runs/ and outcomes/. A file in outcomes/ marks a run
/// as done; its other files may be removed then. A stop signal is passed on to the runs, which save, and throws
/// Interrupted.
StudyResult run_study(const Study& study, const StudyFolder& folder, const std::filesystem::path& program,
                      OldRuns old_runs, Console& console);

}  // namespace keel
