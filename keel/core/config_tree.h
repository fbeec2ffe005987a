#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "keel/core/json.h"

namespace keel {

/// A configuration as it was written: the values, and where each of them stands.
struct ConfigTree {
  Json value = Json::object();
  std::map<std::string, int> lines;  // of every dotted path ("rollout.stop.0"), from 1; 0 is the command line
  std::string file;
};

/// Reads a configuration file: JSON if its name ends in .json, else YAML.
ConfigTree read_config(const std::filesystem::path& path);

/// Reads a configuration from memory; `file_name` decides the format and is what errors call it.
ConfigTree parse_config(std::string_view text, const std::string& file_name);

/// Sets "a.b=value" from the command line, whatever was there before. The value is an unquoted YAML scalar, a quoted
/// string, or a list or mapping in JSON (which replaces the old one, it is not merged).
void apply_override(ConfigTree& tree, std::string_view assignment);

/// The value at a dotted path, or nullptr.
const Json* find_value(const ConfigTree& tree, std::string_view path);

/// Where a path was written: "run.yaml:3" or "command line".
std::string place_of(const ConfigTree& tree, const std::string& path);

/// Whether this build has yaml-cpp; without it configurations are JSON.
bool can_read_yaml();

}  // namespace keel
