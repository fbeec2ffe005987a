#pragma once

#include <cstdint>
#include <filesystem>

namespace keel {

/// Refuses (kHealthGuard, as a full disk) to begin what a folder's disk has no room for: so many bytes at least. Where
/// the disk does not tell, nothing is refused.
void require_free_space(const std::filesystem::path& folder, uint64_t bytes);

}  // namespace keel
