#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "keel/core/options/config_tree.h"

namespace keel {

class TreeBuilder;

/// Reads a configuration file: JSON if its name ends in .json, else YAML.
ConfigTree read_config(const std::filesystem::path& path);

/// The text of a configuration file; a folder, a device and a file of data are refused.
std::string read_config_text(const std::filesystem::path& path);
std::string read_config_text(std::istream& stream);

/// Refuses what is larger than 1 MiB, not UTF-8, or has control characters.
void check_config_text(std::string_view text, const std::string& file_name);

/// Reads a configuration from memory; `file_name` decides the format and is what errors call it.
ConfigTree parse_config(std::string_view text, const std::string& file_name, Anchors anchors = Anchors::kRefused);

/// Feeds a typed value to the builder: an unquoted YAML scalar, a quoted string, or a list or mapping in JSON.
void read_typed_value(std::string_view text, TreeBuilder& builder);
using ValueReader = std::function<void(std::string_view text, TreeBuilder& builder)>;

/// Sets "a.b=value" from the command line, whatever was there before (a list or mapping replaces the old one, it is not
/// merged).
void apply_override(ConfigTree& tree, std::string_view assignment, const ValueReader& read = read_typed_value);

/// Whether this build has yaml-cpp; without it configurations are JSON.
bool can_read_yaml();

}  // namespace keel
