#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace keel {

/// What is left of a folder's disk, in bytes; nothing where the disk does not tell.
std::optional<uint64_t> free_space(const std::filesystem::path& folder);

/// Refuses (kHealthGuard, as a full disk) to begin what a folder's disk has no room for: so many bytes at least. Where
/// the disk does not tell, nothing is refused.
void require_free_space(const std::filesystem::path& folder, uint64_t bytes);

}  // namespace keel
