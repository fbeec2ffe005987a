#pragma once

#include <string>
#include <vector>

#include "keel/core/options/options.h"

namespace keel {

struct Config;

// Recipes of TRL's SFTTrainer (1.16.0): what `trl sft` reads, as a configuration for `keel sft`. Most names are those
// of GRPOConfig, and mean other settings.

/// Whether a recipe is one: it says so (the section of arguments SFTConfig, which is taken out, as GRPOConfig's is), or
/// has names that no other trainer has. One that has names of both, or such as every trainer has alone, is refused.
bool take_whether_supervised(ConfigTree& recipe);

/// The settings of ours, and TRL's names for them.
void describe_for_sft(Config& config, OptionTable& table);

/// The recipe with what TRL has where it says nothing; what Keel does otherwise is added to the remarks.
ConfigTree with_sft_defaults(ConfigTree recipe, const OptionTable& table, std::vector<std::string>& remarks);

}  // namespace keel
