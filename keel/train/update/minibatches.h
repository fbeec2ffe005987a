#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "keel/core/random.h"
#include "keel/core/tensor/rollout.h"

namespace keel {

/// Splits the rollouts 0..total-1 of a step into shuffled minibatches of `size`. Consecutive blocks of `block_size` (a
/// prompt's samples, or 1) are not split. `block_size` divides `size`, which divides `total`.
std::vector<std::vector<int64_t>> minibatches(int64_t total, int64_t size, int64_t block_size, RandomSequence draws);

/// Removes the completions without a reward, so that they affect neither the statistics of their group or batch nor the
/// gradients. Returns the new index of each rollout; none: removed.
std::vector<std::optional<int64_t>> remove_unscored(std::vector<Rollout>& rollouts);

/// Excludes truncated completions from the updates (DAPO's overlong filtering, arXiv 2503.14476; TRL's
/// mask_truncated_completions) by resetting their entries of `new_index`. Their rewards still count for the advantages
/// of the others. Returns the masked fraction.
double mask_truncated_rollouts(std::span<const Rollout> rollouts, std::span<std::optional<int64_t>> new_index);

/// Maps old indices to new ones and drops those of removed rollouts.
std::vector<int64_t> remap_indices(std::span<const int64_t> indices, std::span<const std::optional<int64_t>> new_index);

}  // namespace keel
