#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace keel {

/// Refuses (exit code 2) the name of a file that would be lost: of any but an empty one, and those that `is_own` knows
/// for what this command of the program wrote earlier.
void require_replaceable(const std::filesystem::path& path, std::string_view command,
                         const std::function<bool(const std::filesystem::path&)>& is_own);

}  // namespace keel
