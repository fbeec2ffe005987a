#pragma once

// Rewards that compare the final answer of a completion with the prompt's answer: 1 when it is right, else 0. Where the
// prompt has a list of answers, any of them is right.

#include <memory>
#include <string_view>

#include "keel/reward/functions/reward.h"

namespace keel {

/// The math verifier (math/verifier.h).
std::unique_ptr<Reward> math_reward();

/// The final answer, or the whole completion, is the same text but for white space around it (and case, if told).
std::unique_ptr<Reward> exact_reward(bool ignore_case);

/// The last number of the final answer is within `tolerance` of the gold one, relative to the larger of it and 1.
std::unique_ptr<Reward> numeric_reward(double tolerance);

/// The final answer is the gold letter: "B", "(B)", "B) 12", "\text{B}", "**B**". A gold integer counts from A = 0.
std::unique_ptr<Reward> choice_reward();

}  // namespace keel
