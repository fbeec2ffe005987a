#pragma once

#include "keel/core/prompt.h"
#include "keel/core/tensor/rollout.h"
#include "keel/model/loaded_model.h"
#include "keel/task/task.h"

namespace keel {

/// A question in the model's own tokens: through its chat template where it has one.
std::vector<int32_t> prompt_tokens(const LoadedModel& policy, const std::string& text);

/// A built-in task's problem as a prompt; the id is its index.
Prompt task_prompt(const Task& task, const LoadedModel& policy, const std::string& name, uint64_t seed, uint64_t index,
                   Split split);

}  // namespace keel
