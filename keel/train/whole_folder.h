#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "keel/core/json.h"

namespace keel {

/// Makes a folder that a reader sees whole or not at all: `fill` writes its files under the name FOLDER.partial, then
/// manifest.json gets their sizes and checksums (beside the members of `heading`) and its own, and the folder gets its name last;
/// one that has the name is replaced in one move. What `fill` throws leaves nothing behind.
void write_whole_folder(const std::filesystem::path& folder, const Json& heading,
                        const std::function<void(const std::filesystem::path& partial)>& fill);

/// Checks every file of such a folder against its manifest, and that the manifest names the required ones; the reason
/// when it does not hold.
std::optional<std::string> find_damage_in(const std::filesystem::path& folder, std::span<const char* const> required);

}  // namespace keel
