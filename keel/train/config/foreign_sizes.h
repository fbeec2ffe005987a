#pragma once

#include <cstdint>
#include <string>

#include "keel/core/options/options.h"

namespace keel {

/// Others' names for the sizes of batches and for how long something lasts, which they count in other units: TRL in
/// completions of one device and in updates, verl in prompts and in rollout batches. Comes behind the names that these
/// are computed with.
void add_size_aliases(OptionTable& table);

/// TRL's names for lengths and intervals in updates, which are what `steps` and `every` of ours count, or what
/// `conversion` makes of them.
void add_interval_aliases(OptionTable& table, const std::string& steps, const std::string& every,
                          const std::string& conversion);

/// Updates of a step, by the sizes that are read already; 1 in supervised updates.
int64_t updates_per_step(const OptionTable& table);

}  // namespace keel
