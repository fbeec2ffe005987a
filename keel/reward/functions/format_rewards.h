#pragma once

// Rewards that look at the form of a completion only.

#include <memory>
#include <string>
#include <vector>

#include "keel/reward/functions/reward.h"

namespace keel {

/// 1 when the completion is <a>...</a> <b>...</b>, each tag once and nothing but white space around them; a last tag
/// "*" allows any text after the others. Else 0.
std::unique_ptr<Reward> tags_reward(std::vector<std::string> tags);

/// 1 when the regular expression (PCRE2, dot matches newlines) matches the whole completion, else 0. One that needs
/// more than some millions of steps does not match: no text of a model's can hold up a run.
std::unique_ptr<Reward> pattern_reward(const std::string& pattern);

/// 1 when the completion ended by itself, 0 when it was cut off.
std::unique_ptr<Reward> stopped_reward();

/// Minus the number of tokens divided by `scale`.
std::unique_ptr<Reward> length_reward(double scale);

/// DAPO's soft penalty: 0 up to longest - buffer tokens, falling in a straight line to -1 at `longest`, and -1 beyond.
std::unique_ptr<Reward> overlong_reward(double longest, double buffer);

}  // namespace keel
