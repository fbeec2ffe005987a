#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "keel/core/json.h"

namespace keel {

/// Writes a folder atomically: `fill` writes its files under a partial name, and then the folder is renamed. An
/// existing folder is replaced by one rename. If `fill` throws, the partial folder is removed.
using FillFolder = std::function<void(const std::filesystem::path& partial)>;
void write_directory_atomically(const std::filesystem::path& folder, const FillFolder& fill);

/// Writes a folder atomically like above, under the caller's partial name (NAME.partial), which must be free. Adds a
/// manifest.json with `heading`, the files' sizes and checksums, and its own checksum. A replaced folder is kept for
/// the caller to remove, as NAME.partial, or as NAME.replaced if the filesystem cannot exchange names.
void write_directory_atomically(const std::filesystem::path& folder, const std::filesystem::path& partial,
                                const Json& heading, const FillFolder& fill);

/// Returns a folder's manifest. Returns an empty object if it is missing or does not match its own checksum.
Json valid_manifest(const std::filesystem::path& folder);

/// Returns whether a folder contains only a valid manifest and the files that it lists.
bool matches_manifest_exactly(const std::filesystem::path& folder);

/// Checks every file of a folder against its manifest, and that the manifest names the required files. Returns the
/// first mismatch.
std::optional<std::string> find_manifest_mismatch(const std::filesystem::path& folder,
                                                  std::span<const char* const> required);

}  // namespace keel
