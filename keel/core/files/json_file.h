#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "keel/core/json.h"
#include "keel/core/json_reader.h"

namespace keel {

/// Parses a JSON file. Throws an Error (kBadInput) with file and line if it is not JSON under these rules.
Json read_json_file(const std::filesystem::path& path, const JsonRules& rules = {});

/// Parses a JSON object from a file. Returns an empty object if the file is missing or not a JSON object. Throws if it
/// cannot be read.
Json json_if_any(const std::filesystem::path& path);

/// Parses the content of a JSON file like read_json_file(). Errors name it `file_name`.
Json parse_json_file(std::string_view content, const std::string& file_name, const JsonRules& rules = {});

/// Formats JSON for a message: truncated, in ASCII.
std::string format_short_json(const Json& json);

/// Formats JSON as one line without a newline. Escapes U+0085, U+2028 and U+2029, which Python's splitlines() and
/// others treat as line ends. Replaces invalid UTF-8.
std::string json_line(const Json& json);

}  // namespace keel
