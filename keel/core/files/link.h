#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace keel {

/// Makes a link to a name in its own folder, durably and in one move: a reader sees where it led before, or this. What
/// has its name and is no link is moved aside.
void point_link(const std::filesystem::path& link, const std::string& target);

/// Where a link leads; nothing where there is none.
std::optional<std::string> link_target(const std::filesystem::path& link);

/// Whether a path leads to a folder or to what lies in it, by whatever links.
bool leads_into(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace keel
