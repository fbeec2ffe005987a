#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "keel/core/json.h"
#include "keel/core/json_reader.h"

namespace keel {

/// The tree in a JSON file; one that is not JSON under these rules is an Error (kBadInput) that names the file and the
/// line.
Json read_json_file(const std::filesystem::path& path, const JsonRules& rules = {});

/// The object in a JSON file that may be missing: empty if there is no file, or no JSON object in it. A file that cannot
/// be read is an error all the same.
Json json_if_any(const std::filesystem::path& path);

/// The same of a file's content; `place` names the file.
Json parse_json_file(std::string_view content, const std::string& place, const JsonRules& rules = {});

/// A tree for a message: its JSON in plain ASCII, cut short.
std::string format_short_json(const Json& json);

/// The tree on one line, without its end. U+0085, U+2028 and U+2029 are escaped, since Python's splitlines() and others
/// take them for the end of a line; bytes that are not UTF-8 are replaced.
std::string json_line(const Json& json);

}  // namespace keel
