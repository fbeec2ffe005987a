#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace keel {

/// Returns the free bytes on a folder's disk, or nullopt if the filesystem does not report them.
std::optional<uint64_t> free_space(const std::filesystem::path& folder);

/// Throws an Error (kHealthGuard, like a full disk) if a folder's disk has less than `bytes` free. Does nothing if the
/// filesystem does not report its free space.
void require_free_space(const std::filesystem::path& folder, uint64_t bytes);

}  // namespace keel
