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

/// Returns the text of a configuration file. Rejects folders, devices and data files.
std::string read_config_text(const std::filesystem::path& path);
std::string read_config_text(std::istream& stream);

/// Rejects text that is larger than 1 MiB, is not UTF-8, or has control characters.
void check_config_text(std::string_view text, const std::string& file_name);

/// Parses a configuration. `file_name` determines the format and appears in errors.
ConfigTree parse_config(std::string_view text, const std::string& file_name, Anchors anchors = Anchors::kRefused);

/// Parses the value of a command-line setting: an unquoted YAML scalar, a quoted string, or a JSON list or mapping.
void read_typed_value(std::string_view text, TreeBuilder& builder);
using ValueReader = std::function<void(std::string_view text, TreeBuilder& builder)>;

/// Applies "a.b=value" from the command line. A list or mapping replaces the old one; they are not merged.
void apply_override(ConfigTree& tree, std::string_view assignment, const ValueReader& read = read_typed_value);

/// Returns whether this build has yaml-cpp. Without it, configurations must be JSON.
bool can_read_yaml();

}  // namespace keel
