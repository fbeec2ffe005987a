#pragma once

// Rewards that compare the final answer of a completion with the prompt's answer: 1 if they are equal, else 0. A prompt
// may have a list of correct answers.

#include <memory>
#include <string_view>

#include "keel/reward/functions/reward.h"

namespace keel {

/// Equality by the math verifier (libs/mathverify).
std::unique_ptr<Reward> math_reward();

/// The final answer, or the whole completion, is the same text after trimming (and case folding with `ignore_case`).
std::unique_ptr<Reward> exact_reward(bool ignore_case);

/// The last number of the final answer is within `tolerance` * max(1, |gold|) of the gold number.
std::unique_ptr<Reward> numeric_reward(double tolerance);

/// The final answer is the gold letter: "B", "(B)", "B) 12", "\text{B}", "**B**". A gold integer counts from A = 0.
std::unique_ptr<Reward> choice_reward();

}  // namespace keel
