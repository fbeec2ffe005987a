#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "keel/core/records.h"
#include "keel/text/tokenizer.h"

namespace keel {

/// From a prompt and a completion's text (its stop token spelled out, if it was generated) to a reward.
using RewardFunction = std::function<double(const Prompt& prompt, std::string_view completion)>;

/// Sets the reward of every rollout. A reward that is not a finite number stops the run (exit code 5).
void score(std::span<Rollout> rollouts, std::span<const Prompt> prompts, const Tokenizer& tokenizer,
           const RewardFunction& reward);

}  // namespace keel
