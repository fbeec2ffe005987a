#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "keel/core/json.h"

namespace keel {

/// Makes a folder that a reader sees whole or not at all: `fill` writes its files under a partial name, and the
/// folder gets its own last; one that has the name is replaced in one move. What `fill` throws leaves nothing
/// behind.
using FillFolder = std::function<void(const std::filesystem::path& partial)>;
void write_directory_atomically(const std::filesystem::path& folder, const FillFolder& fill);

/// The same under a partial name of the caller's (NAME.partial, and free), with a manifest.json, which gets the files'
/// sizes and checksums (beside the members of `heading`) and its own. A folder that is replaced is left, as
/// NAME.partial or, where the filesystem cannot exchange names, NAME.replaced: what of it is to be removed is the
/// caller's to say.
void write_directory_atomically(const std::filesystem::path& folder, const std::filesystem::path& partial, const Json& heading,
                        const FillFolder& fill);

/// What a folder's manifest says; empty where there is none, or none that its own checksum holds for.
Json valid_manifest(const std::filesystem::path& folder);

/// Whether a folder holds nothing but a sound manifest and the files that it names.
bool matches_manifest_exactly(const std::filesystem::path& folder);

/// Checks every file of a folder against its manifest, and that the manifest names the required ones; the reason when
/// it does not hold.
std::optional<std::string> find_manifest_mismatch(const std::filesystem::path& folder, std::span<const char* const> required);

}  // namespace keel
