#pragma once

#include <filesystem>

#include "keel/core/json.h"

namespace keel {

/// What a JSON file says, for one that a run can do without: an empty object where there is none, or something else in
/// its place, or no JSON in it. That a disk cannot be read is an error all the same.
Json json_if_any(const std::filesystem::path& path);

}  // namespace keel
