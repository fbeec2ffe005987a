#pragma once

#include <filesystem>
#include <string>

#include "keel/core/files/locked_directory.h"
#include "keel/study/study.h"

namespace keel {

/// Whether runs that were made with other settings are made anew, and what is another's in the folder is replaced.
enum class OldRuns { kKept, kReplaced };

/// The folder of a study, which names the study in study.json. One process at a time has it locked.
class StudyFolder {
 public:
  /// Claims study.dir, which is made where there is none.
  StudyFolder(const Study& study, OldRuns old_runs);

  const std::filesystem::path& path() const { return directory_.path(); }
  std::filesystem::path config(const std::string& run) const { return path() / "configs" / (run + ".yaml"); }
  std::filesystem::path outcome(const std::string& run) const { return path() / "outcomes" / (run + ".json"); }
  std::filesystem::path log(const std::string& run) const { return path() / "logs" / (run + ".txt"); }
  std::filesystem::path run(const std::string& name) const { return path() / "runs" / name; }

  /// An Error (kHealthGuard) where its path leads to it no longer: a run, which knows its folder by that path, must not
  /// be begun then.
  void require_at_its_path() const;

 private:
  LockedDirectory directory_;
};

}  // namespace keel
