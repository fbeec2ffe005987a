#pragma once

#include <cstdint>
#include <vector>

#include "keel/core/random.h"

namespace keel {

/// Cuts the rollouts 0..total-1 of a step into minibatches of `size`, in a random order of blocks of `together`
/// neighbours, which never part: groups that keep their prompt (samples_per_prompt), or single rollouts (1). `together`
/// divides `size`, and `size` divides `total`.
std::vector<std::vector<int64_t>> minibatches(int64_t total, int64_t size, int64_t together, Draws draws);

}  // namespace keel
