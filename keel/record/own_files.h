#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace keel {

// What of a run's folder the run itself wrote, by its id and by the names of its files: a save and --overwrite remove
// that and nothing else.

/// The link, beside a run's checkpoints, to the one with the best evaluation.
inline constexpr const char* kBestCheckpoint = "best";

/// Whether this is a checkpoint of a run, sound or not: by its name, and by what lies in it.
bool is_checkpoint(const std::filesystem::path& path);
bool is_checkpoint_name(const std::string& name);

/// The id of the run whose checkpoint or reference policy this is; empty where its manifest does not tell.
std::string run_of(const std::filesystem::path& folder);

/// Whether its manifest says so, and is sound: one with a flipped bit may name anybody.
bool is_of_another_run(const std::filesystem::path& folder, const std::string& run);

/// The checkpoint that LATEST of a run names; nothing where it names none.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& run);

/// Whether that one says that the run came to its end.
bool is_finished(const std::filesystem::path& run);

/// The id of the run in a folder. used.json says it; where it does not, the checkpoint that LATEST names, or that all
/// checkpoints are of one run. Empty where nothing tells.
std::string own_run(const std::filesystem::path& run);

bool is_own_checkpoint(const std::filesystem::path& path, const std::string& run);
/// One of an older program has no id.
bool is_own_reference(const std::filesystem::path& path, const std::string& run);

/// The name under which a run writes one of these folders before it has its own, and removes it: NAME.RUN.partial.
std::filesystem::path partial_of(const std::filesystem::path& folder, const std::string& run);

/// Removes a checkpoint or a reference policy of the run. What somebody else put into it stays, in NAME.other.
void remove_own_folder(const std::filesystem::path& folder, const std::string& run);

/// Removes what processes of this run that were killed left half-written or half-removed in a folder.
void remove_leftovers(const std::filesystem::path& parent, const std::string& run);

}  // namespace keel
