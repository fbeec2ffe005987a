#include "keel/study/study_folder.h"

#include <array>
#include <optional>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"

namespace keel {
namespace {

constexpr const char* kOwner = "study.json";
constexpr std::array kFolders = {"configs", "logs", "runs", "outcomes"};
constexpr std::array kTables = {"table.md", "table.csv", "runs.csv", "study.html", "curves.svg"};

/// The file of the study that a folder says it is of; nothing where it does not say.
std::optional<std::string> owner_of(const std::filesystem::path& folder) {
  if (!path_exists(folder / kOwner)) return std::nullopt;
  const Json json = read_json_file(folder / kOwner);
  const Json file = json.is_object() ? json.value("study", Json()) : Json();
  return file.is_string() ? file.get<std::string>() : "(" + std::string(kOwner) + " does not name it)";
}

/// Studies of one name in several folders would share studies/NAME, and a folder may hold anything.
void require_own(const Study& study, const std::filesystem::path& folder) {
  const std::string way_out = "; choose another study.dir, or replace what it has with --overwrite";
  if (const std::optional<std::string> owner = owner_of(folder)) {
    if (*owner != study.file)
      fail(ExitCode::kBadConfiguration, "study.dir: ", study.options.dir, " holds the study ", *owner, ", and this is ",
           study.file, way_out);
    return;
  }
  const auto refuse_taken = [&](const auto& names) {
    for (const char* name : names)
      if (path_exists(folder / name))
        fail(ExitCode::kBadConfiguration, "study.dir: ", study.options.dir, " has ", name,
             " in it, and nothing says that it is this study's", way_out);
  };
  refuse_taken(kTables);
  refuse_taken(kFolders);
}

LockedDirectory locked(const Study& study, OldRuns old_runs) {
  const std::filesystem::path folder = full_path(study.options.dir);
  create_directories(folder);
  std::optional<LockedDirectory> directory = LockedDirectory::lock(folder);
  if (!directory)
    fail(ExitCode::kBadConfiguration, "study.dir: a study goes on in ", study.options.dir,
         "; wait for its end, or choose another folder");
  if (old_runs == OldRuns::kKept) require_own(study, folder);
  write_atomically(folder / kOwner, json_line(Json{{"study", study.file}}) + "\n");
  for (const char* name : kFolders) create_directories(folder / name);
  return std::move(*directory);
}

}  // namespace

StudyFolder::StudyFolder(const Study& study, OldRuns old_runs) : directory_(locked(study, old_runs)) {}

void StudyFolder::require_at_its_path() const {
  const std::optional<std::filesystem::path> now = directory_.current_path();
  if (now == path()) return;
  fail(ExitCode::kHealthGuard, "study.dir: ", path().string(), " was ", now ? "moved to " + now->string() : "removed",
       " while the study went on, which stops; what has the name now was left alone. ",
       now ? "Move it back, and the same command goes on with it" : "The same command begins it anew");
}

}  // namespace keel
