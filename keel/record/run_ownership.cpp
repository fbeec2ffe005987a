#include "keel/record/run_ownership.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "keel/core/error.h"
#include "keel/core/files/atomic_directory.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

/// Returns a member of an object if it is a string, else "".
std::string text_in(const Json& object, const char* member) {
  const Json value = object.value(member, Json());
  return value.is_string() ? value.get<std::string>() : "";
}

/// Returns the run id of a manifest with a valid checksum.
std::string read_verified_run_id(const fs::path& folder) { return text_in(valid_manifest(folder), "run"); }

}  // namespace

bool is_checkpoint_name(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  constexpr size_t kMaxLength = 19;
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() && name.size() <= kMaxLength &&
         std::all_of(name.begin() + kPrefix.size(), name.end(), [](unsigned char c) { return std::isdigit(c); });
}

bool is_checkpoint(const fs::path& path) {
  return is_checkpoint_name(path.filename().string()) && is_folder(path) &&
         (path_exists(path / "manifest.json") || path_exists(path / "state.json"));
}

std::string read_run_id(const fs::path& folder) { return text_in(json_if_any(folder / "manifest.json"), "run"); }

bool belongs_to_other_run(const fs::path& folder, const std::string& run) {
  const std::string owner = read_verified_run_id(folder);
  return !owner.empty() && owner != run;
}

std::optional<fs::path> latest_checkpoint(const fs::path& run) {
  const fs::path checkpoints = run / "checkpoints";
  std::string latest;
  try {
    constexpr uint64_t kMaxLength = 100;
    if (path_exists(checkpoints / "LATEST")) latest = read_file(checkpoints / "LATEST", kMaxLength);
  } catch (const Error&) {  // such as a directory
  }
  latest = latest.substr(0, latest.find('\n'));
  return is_checkpoint_name(latest) ? std::optional(checkpoints / latest) : std::nullopt;
}

bool is_finished(const fs::path& run) {
  const std::optional<fs::path> latest = latest_checkpoint(run);
  const Json state = latest ? json_if_any(*latest / "state.json").value("state", Json()) : Json();
  return state.is_object() && state.value("phase", Json()) == "done";
}

std::string find_run_id(const fs::path& run) {
  if (const std::string id = text_in(json_if_any(run / "used.json"), "run.id"); !id.empty()) return id;
  const fs::path checkpoints = run / "checkpoints";
  std::set<std::string> runs;
  if (is_folder(checkpoints))
    for (const std::string& name : list_directory(checkpoints))
      if (is_checkpoint(checkpoints / name)) runs.insert(read_verified_run_id(checkpoints / name));
  runs.erase("");
  return runs.size() == 1 ? *runs.begin() : "";
}

bool is_own_checkpoint(const fs::path& path, const std::string& run) {
  return !run.empty() && is_checkpoint(path) && read_run_id(path) == run;
}

bool is_own_reference(const fs::path& path, const std::string& run) {
  const Json manifest = json_if_any(path / "manifest.json");
  return text_in(manifest, "format") == "keel reference 1" && text_in(manifest, "run") == run;
}

fs::path partial_path(const fs::path& folder, const std::string& run) {
  return folder.string() + "." + run + ".partial";
}

void remove_own_folder(const fs::path& folder, const std::string& run) {
  if (!matches_manifest_exactly(folder)) return;
  // A partly removed folder would not be recognised as a checkpoint, so it is renamed first.
  const fs::path partial = partial_path(folder, run);
  remove_tree(partial);
  rename_directory(folder, partial);
  remove_tree(partial);
}

void remove_leftovers(const fs::path& parent, const std::string& run) {
  if (run.empty()) return;
  for (const std::string& name : list_directory(parent))
    for (const std::string& ending : {"." + run + ".partial", "." + run + ".replaced"}) {
      if (!name.ends_with(ending)) continue;
      const std::string final_name = name.substr(0, name.size() - ending.size());
      if (is_checkpoint_name(final_name) || final_name == "reference") remove_tree(parent / name);
    }
}

}  // namespace keel
