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

/// What a study has when no run is left to be made.
struct StudyResult {
  std::vector<Outcome> outcomes;                // in the order of the runs
  std::map<std::string, std::string> failures;  // the name of a run, and what it said
  std::map<std::string, int64_t> failed = {};   // runs of each variant
  std::vector<std::string> unmeasured = {};     // a sentence for each of study.measures that no run has
};

/// Makes the runs of a study that its folder does not have yet, each in a process of its own, several at a time, and
/// goes on with those that were interrupted. One that fails does not stop the others. Below the folder: configs/,
/// logs/, runs/, and outcomes/, which alone says that a run is done: the others may be removed then. A signal is passed
/// on to the runs, which save (Interrupted).
StudyResult run_study(const Study& study, const StudyFolder& folder, const std::filesystem::path& program,
                      OldRuns old_runs, Console& console);

}  // namespace keel
