#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "keel/core/tensor/rollout.h"

namespace keel {

/// Takes the completions that nobody could judge out of a step: what is not known to be good or bad has no part in the
/// statistics of its group or batch, and nothing is learned from it. Answers where each rollout is now; nothing: out.
std::vector<std::optional<int64_t>> leave_out_unjudged(std::vector<Rollout>& rollouts);

/// Places before that as places after it.
std::vector<int64_t> places_now(std::span<const int64_t> before, std::span<const std::optional<int64_t>> now);

}  // namespace keel
