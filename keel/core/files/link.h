#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace keel {

/// Sets a symbolic link to a name in its own folder, atomically and durably: a reader gets the old target or the new
/// one. An existing file that is not a link is moved aside.
void point_link(const std::filesystem::path& link, const std::string& target);

/// Returns the target of a link, or nullopt if it is not a link.
std::optional<std::string> link_target(const std::filesystem::path& link);

/// Returns whether a path, with its links resolved, is the folder or inside it.
bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace keel
