#pragma once

#include "keel/core/options/options.h"

namespace keel {

/// Others' names for what rewards lose, to the KL to the reference and to length, and for the groups that are dropped
/// by their rewards.
void add_reward_aliases(OptionTable& table);

/// Others' names for reward.functions and reward.weights, which need no other setting.
void add_reward_functions(OptionTable& table);

/// verl's words for the estimators of a KL.
Json kl_estimator_word(const Json& value, const ConfigTree& tree, const OptionTable& table);

}  // namespace keel
