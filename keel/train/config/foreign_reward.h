#pragma once

#include "keel/core/options/options.h"

namespace keel {

/// Others' names for what rewards lose, to the KL to the reference and to length, and for the groups that are dropped
/// by their rewards.
void add_reward_aliases(OptionTable& table);

/// TRL's and open-r1's names of reward functions as ours.
Json functions_of_trl(const Json& value, const ConfigTree& tree, const OptionTable& table);

/// verl's words for the estimators of a KL.
Json kl_estimator_word(const Json& value, const ConfigTree& tree, const OptionTable& table);

}  // namespace keel
