#pragma once

#include <filesystem>
#include <string>

#include "keel/core/json.h"

namespace keel {

/// The tree in a JSON file; one that is not JSON is an Error (kBadInput) that names it.
Json read_json_file(const std::filesystem::path& path);

/// The tree on one line, without its end. U+0085, U+2028 and U+2029 are escaped, since Python's splitlines() and others
/// take them for the end of a line; bytes that are not UTF-8 are replaced.
std::string json_line(const Json& json);

}  // namespace keel
