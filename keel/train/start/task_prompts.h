#pragma once

#include "keel/core/prompt.h"
#include "keel/core/tensor/rollout.h"
#include "keel/model/loaded_model.h"
#include "keel/task/task.h"
#include "libs/hftext/chat/chat_encoding.h"

namespace keel {

/// A question in the model's own tokens: through its chat template where it has one, which is told these words.
std::vector<int32_t> prompt_tokens(const LoadedModel& policy, const std::string& text, const TemplateWords& words);

/// A built-in task's problem as a prompt; the id is its index.
Prompt task_prompt(const Task& task, const LoadedModel& policy, const std::string& name, const TemplateWords& words,
                   uint64_t seed, uint64_t index, Split split);

}  // namespace keel
