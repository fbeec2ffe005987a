#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "keel/core/random.h"
#include "keel/core/tensor/rollout.h"

namespace keel {

/// Cuts the rollouts 0..total-1 of a step into minibatches of `size`, in a random order of blocks of `together`
/// neighbours (a prompt's samples, or 1) that stay together. `together` divides `size`, which divides `total`.
std::vector<std::vector<int64_t>> minibatches(int64_t total, int64_t size, int64_t together, Draws draws);

/// Removes the completions without a reward from a step: they take no part in the statistics of their group or batch,
/// and nothing is learned from them. Returns the new index of each rollout; none: removed.
std::vector<std::optional<int64_t>> remove_unscored(std::vector<Rollout>& rollouts);

/// Masks the completions that were cut off at the max length in the updates to come (DAPO's overlong filtering, arXiv
/// 2503.14476, TRL's mask_truncated_completions). The rollouts stay, and their rewards still count for the advantages
/// of the others. Returns the fraction that is masked.
double mask_truncated_rollouts(std::span<const Rollout> rollouts, std::span<std::optional<int64_t>> places);

/// Old indices as new ones, without those that were removed.
std::vector<int64_t> remap_indices(std::span<const int64_t> before, std::span<const std::optional<int64_t>> now);

}  // namespace keel
