#pragma once

#include <string>
#include <vector>

#include "keel/core/options/config_tree.h"

namespace keel {

/// A recipe of TRL's or verl's in its own names, read as its program reads it: YAML (with anchors), JSON, or a shell
/// script that starts a training, and further settings (key=value, Hydra's +key=value, ++key=value and ~key), which
/// win. The arguments of GRPOConfig or SFTConfig, ModelConfig, ScriptArguments and LoraConfig may stand under these
/// names, of which the first two stay, empty, and the last, as true. Hydra's references (${a.b}) to what the recipe
/// itself has are resolved, others refused. `file` is - for standard input, and empty where there are settings only.
ConfigTree read_recipe(const std::string& file, const std::vector<std::string>& settings);

}  // namespace keel
