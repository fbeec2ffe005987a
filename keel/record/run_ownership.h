#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace keel {

// Which checkpoints and reference policies a run wrote, by the run's id in their manifests. Saving and --overwrite
// remove those and nothing else.

/// The name of the link, among a run's checkpoints, to the one with the best evaluation.
inline constexpr const char* kBestCheckpoint = "best";

/// Returns whether the path is a checkpoint by its name and files; it may be damaged.
bool is_checkpoint(const std::filesystem::path& path);
bool is_checkpoint_name(const std::string& name);

/// Returns the id of the run that wrote a checkpoint or a reference policy, or "" if its manifest has none.
std::string read_run_id(const std::filesystem::path& folder);

/// Returns whether the folder's manifest is intact and names another run.
bool belongs_to_other_run(const std::filesystem::path& folder, const std::string& run);

/// Returns the checkpoint that LATEST of a run names, if any.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& run);

/// Returns whether the latest checkpoint is the final one of the run.
bool is_finished(const std::filesystem::path& run);

/// Returns the run id in used.json, else the id that all intact checkpoints share, else "".
std::string find_run_id(const std::filesystem::path& run);

bool is_own_checkpoint(const std::filesystem::path& path, const std::string& run);
bool is_own_reference(const std::filesystem::path& path, const std::string& run);

/// The temporary name of a folder that a run writes or removes: NAME.RUN.partial.
std::filesystem::path partial_path(const std::filesystem::path& folder, const std::string& run);

/// Removes a checkpoint or a reference policy of the run, unless it holds files that its manifest does not name.
void remove_own_folder(const std::filesystem::path& folder, const std::string& run);

/// Removes partial folders that killed processes of this run left.
void remove_leftovers(const std::filesystem::path& parent, const std::string& run);

}  // namespace keel
