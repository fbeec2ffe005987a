#pragma once

#include "keel/core/options/options.h"

namespace keel {

/// verl's names for what rewards lose: to the KL to the reference, and to length.
void add_reward_aliases(OptionTable& table);

/// verl's words for the estimators of a KL.
Json kl_estimator_word(const Json& value, const ConfigTree& tree, const OptionTable& table);

}  // namespace keel
