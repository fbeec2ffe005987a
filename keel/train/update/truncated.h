#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "keel/core/tensor/rollout.h"

namespace keel {

/// Takes the places of completions that were cut off at the longest length out of the updates to come (DAPO's overlong
/// filtering, arXiv 2503.14476, TRL's mask_truncated_completions): how good they would have become nobody knows. The
/// rollouts stay, and with them their rewards' part in what the others are worth. Answers the share that is left out.
double leave_out_truncated(std::span<const Rollout> rollouts, std::span<std::optional<int64_t>> places);

}  // namespace keel
