#include "keel/study/study_folder.h"

#include <array>
#include <optional>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"

namespace keel {
namespace {

constexpr const char* kStudyFile = "study.json";
constexpr std::array kFolders = {"configs", "logs", "runs", "outcomes"};
constexpr std::array kTables = {"table.md", "table.csv", "runs.csv", "study.html", "curves.svg"};

/// Returns the study file named in study.json, if there is one.
std::optional<std::string> read_owner(const std::filesystem::path& folder) {
  if (!path_exists(folder / kStudyFile)) return std::nullopt;
  const Json json = read_json_file(folder / kStudyFile);
  const Json file = json.is_object() ? json.value("study", Json()) : Json();
  return file.is_string() ? file.get<std::string>() : "(" + std::string(kStudyFile) + " does not name it)";
}

/// Fails if the folder has files of another study, or of unknown origin.
void require_same_study(const Study& study, const std::filesystem::path& folder) {
  const std::string fix = "; choose another study.dir, or replace its contents with --overwrite";
  if (const std::optional<std::string> owner = read_owner(folder)) {
    if (*owner != study.file)
      fail(ExitCode::kBadConfiguration, "study.dir: ", study.options.dir, " has the study ", *owner, ", and this is ",
           study.file, fix);
    return;
  }
  const auto require_absent = [&](const auto& names) {
    for (const char* name : names)
      if (path_exists(folder / name))
        fail(ExitCode::kBadConfiguration, "study.dir: ", study.options.dir, " has ", name,
             " and no study.json, so it may not be this study's", fix);
  };
  require_absent(kTables);
  require_absent(kFolders);
}

LockedDirectory open_folder(const Study& study, OldRuns old_runs) {
  const std::filesystem::path folder = full_path(study.options.dir);
  create_directories(folder);
  std::optional<LockedDirectory> directory = LockedDirectory::lock(folder);
  if (!directory)
    fail(ExitCode::kBadConfiguration, "study.dir: another process runs a study in ", study.options.dir,
         "; wait until it ends, or choose another folder");
  if (old_runs == OldRuns::kKept) require_same_study(study, folder);
  write_atomically(folder / kStudyFile, json_line(Json{{"study", study.file}}) + "\n");
  for (const char* name : kFolders) create_directories(folder / name);
  return std::move(*directory);
}

}  // namespace

StudyFolder::StudyFolder(const Study& study, OldRuns old_runs) : directory_(open_folder(study, old_runs)) {}

void StudyFolder::require_not_moved() const {
  const std::optional<std::filesystem::path> current = directory_.current_path();
  if (current == path()) return;
  fail(ExitCode::kHealthGuard, "study.dir: ", path().string(), " was ",
       current ? "moved to " + current->string() : "removed",
       " during the study, which stops; nothing at this path was changed. ",
       current ? "Move it back and run the same command to continue" : "Run the same command to start again");
}

}  // namespace keel
