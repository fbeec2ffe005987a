#pragma once

#include <cstdint>

#include "keel/core/options/options.h"

namespace keel {

/// Others' names for the sizes of batches and for how long something lasts, which they count in other units: TRL in
/// completions of one device and in updates, verl in prompts and in rollout batches. Comes behind the names that these
/// are computed with.
void add_size_aliases(OptionTable& table);

/// Updates of a step, by the sizes that are read already.
int64_t updates_per_step(const OptionTable& table);

}  // namespace keel
