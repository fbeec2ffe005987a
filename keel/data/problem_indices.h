#pragma once

#include <span>
#include <vector>

#include "keel/core/prompt.h"

namespace keel {

/// The problem index of each prompt, from 0 in order of first appearance. Rows of files with equal source, prompt and
/// answer are one problem; prompts of a built-in task are all distinct.
std::vector<size_t> problem_indices(std::span<const Prompt> prompts);

}  // namespace keel
