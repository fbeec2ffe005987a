#pragma once

#include <span>
#include <vector>

#include "keel/core/prompt.h"

namespace keel {

/// For each prompt which problem it is, counted from 0 in order of first appearance: rows of files with the same
/// source, prompt and answer are one problem, however often they are written. What a task draws again it has drawn
/// anew.
std::vector<size_t> problem_numbers(std::span<const Prompt> prompts);

}  // namespace keel
