#pragma once

#include "keel/core/prompt.h"
#include "keel/core/tensor/rollout.h"
#include "keel/model/loaded_model.h"
#include "keel/task/task.h"

namespace keel {

/// A question in the model's own tokens: through its chat template where it has one, which may ask for the date.
std::vector<int32_t> prompt_tokens(const LoadedModel& policy, const std::string& text, const std::string& date);

/// A built-in task's problem as a prompt; the id is its index.
Prompt task_prompt(const Task& task, const LoadedModel& policy, const std::string& name, const std::string& date,
                   uint64_t seed, uint64_t index, Split split);

}  // namespace keel
