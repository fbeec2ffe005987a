#pragma once

// Rewards for the format of a completion.

#include <memory>
#include <string>
#include <vector>

#include "keel/reward/functions/reward.h"

namespace keel {

/// 1 if the completion is <a>...</a> <b>...</b>, each tag once with only white space around them, else 0. A last tag
/// "*" allows any text after the others.
std::unique_ptr<Reward> tags_reward(std::vector<std::string> tags);

/// 1 if the regular expression (PCRE2, dot matches newlines) matches the whole completion, else 0. A match that exceeds
/// the step limit counts as 0, so that no completion can block a run.
std::unique_ptr<Reward> pattern_reward(const std::string& pattern);

/// 1 if the completion ended with a stop token or string, 0 if it was truncated.
std::unique_ptr<Reward> stopped_reward();

/// Minus the number of tokens divided by `scale`.
std::unique_ptr<Reward> length_reward(double scale);

/// The DAPO soft penalty: 0 up to max_length - buffer tokens, then linear to -1 at `max_length`, and -1 beyond.
std::unique_ptr<Reward> overlong_reward(double max_length, double buffer);

}  // namespace keel
