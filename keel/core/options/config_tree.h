#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"

namespace keel {

constexpr const char* kCommandLine = "command line";  // the location in errors

/// Whether YAML anchors and aliases are rejected or resolved. Only configurations of other programs may have them.
enum class Anchors { kRefused, kResolved };

/// A parsed configuration: the values and their line numbers.
struct ConfigTree {
  Json value = Json::object();
  std::map<std::string, int> lines;  // by dotted path ("rollout.stop.0"), from 1; 0: the command line
  std::string file;
};

/// Splits a dotted path: "rollout.stop.0" into rollout, stop and 0.
std::vector<std::string> split_path(std::string_view path);

/// Returns the value at a dotted path, or nullptr.
const Json* find_value(const ConfigTree& tree, std::string_view path);

/// Returns the value at a dotted path, or nullptr if it is missing or null.
const Json* find_non_null(const ConfigTree& tree, std::string_view path);

/// Returns whether a path was set on the command line.
bool on_command_line(const ConfigTree& tree, const std::string& path);

/// Returns a string unchanged, null as an empty string, and other values as JSON.
std::string as_text(const Json& value);

/// Erases the value at a dotted path and the sections that become empty.
void erase_value(ConfigTree& tree, const std::string& path);

/// Returns the location of a path: "run.yaml:3" or "command line".
std::string location_of(const ConfigTree& tree, const std::string& path);

}  // namespace keel
