#pragma once

#include <filesystem>

#include "keel/core/json.h"

namespace keel {

/// The tree in a JSON file; one that is not JSON is an Error (kBadInput) that names it.
Json read_json_file(const std::filesystem::path& path);

}  // namespace keel
