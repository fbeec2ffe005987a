#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace keel {

/// Throws an Error (exit code 2) if a file would be lost: one that is not empty and for which `is_own`, which
/// recognizes earlier output of this command, returns false.
void require_replaceable(const std::filesystem::path& path, std::string_view command,
                         const std::function<bool(const std::filesystem::path&)>& is_own);

}  // namespace keel
