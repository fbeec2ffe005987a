#pragma once

#include <filesystem>
#include <string>

#include "keel/core/files/locked_directory.h"
#include "keel/study/study.h"

namespace keel {

/// Selects whether to replace runs with other settings, and files of other studies (--overwrite).
enum class OldRuns { kKept, kReplaced };

/// The folder of a study. Its study.json names the study; one process at a time locks it.
class StudyFolder {
 public:
  /// Creates study.dir if needed, and locks it.
  StudyFolder(const Study& study, OldRuns old_runs);

  const std::filesystem::path& path() const { return directory_.path(); }
  std::filesystem::path config(const std::string& run) const { return path() / "configs" / (run + ".yaml"); }
  std::filesystem::path outcome(const std::string& run) const { return path() / "outcomes" / (run + ".json"); }
  std::filesystem::path log(const std::string& run) const { return path() / "logs" / (run + ".txt"); }
  std::filesystem::path run(const std::string& name) const { return path() / "runs" / name; }

  /// Fails (kHealthGuard) if the folder was moved or removed, since runs find their folders by path.
  void require_not_moved() const;

 private:
  LockedDirectory directory_;
};

}  // namespace keel
