#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"

namespace keel {

constexpr const char* kCommandLine = "command line";  // what errors call it, where a file has its name

/// What becomes of YAML's anchors and aliases: our configurations have none, those of other programs may.
enum class Anchors { kRefused, kResolved };

/// A configuration as it was written: the values, and where each of them stands.
struct ConfigTree {
  Json value = Json::object();
  std::map<std::string, int> lines;  // of every dotted path ("rollout.stop.0"), from 1; 0 is the command line
  std::string file;
};

/// The names of a dotted path: "rollout.stop.0" is rollout, stop and 0.
std::vector<std::string> split_path(std::string_view path);

/// The value at a dotted path, or nullptr.
const Json* find_value(const ConfigTree& tree, std::string_view path);

/// The value at a dotted path, or nullptr if there is none or it is null.
const Json* find_non_null(const ConfigTree& tree, std::string_view path);

/// Whether a path was given on the command line.
bool on_command_line(const ConfigTree& tree, const std::string& path);

/// A string as it is, anything else as JSON; empty for null.
std::string word_of(const Json& value);

/// Takes away what stands at a dotted path, and the sections that it leaves empty.
void erase_value(ConfigTree& tree, const std::string& path);

/// Where a path was written: "run.yaml:3" or "command line".
std::string place_of(const ConfigTree& tree, const std::string& path);

}  // namespace keel
