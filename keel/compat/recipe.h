#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "keel/core/options/config_tree.h"
#include "keel/core/options/tree_builder.h"

namespace keel::compat {

/// Reads a recipe: a YAML or JSON file ("-": standard input; empty: none) and overriding arguments, in verl's style
/// (key=value, +key=value, ~key) or in TRL's (--key value ..., --flag, --config FILE). The sections of Python classes
/// (GRPOConfig, LoraConfig, ...) are merged into one level, and references (${a.b}) that can be resolved are.
ConfigTree read_recipe(const std::string& file, const std::vector<std::string>& words);

/// Reads a value by the override grammar of Hydra: lists [a, b] and mappings {name: value} without quotes, true, false
/// and null in any case, 1_000, and strings with or without quotes. References, sweeps and functions are errors.
void read_hydra_value(std::string_view text, TreeBuilder& builder);

}  // namespace keel::compat
