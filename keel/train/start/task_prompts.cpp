#include "keel/train/start/task_prompts.h"

namespace keel {

std::vector<int32_t> prompt_tokens(const LoadedModel& policy, const std::string& text, const TemplateWords& words) {
  if (policy.templates.empty()) return encode_text(policy, text);
  return encode_chat(policy, Json::array({{{"role", "user"}, {"content", text}}}), words);
}

Prompt task_prompt(const Task& task, const LoadedModel& policy, const std::string& name, const TemplateWords& words,
                   uint64_t seed, uint64_t index, Split split) {
  const Problem problem = task.problem(seed, index, split);
  return {.id = index,
          .tokens = prompt_tokens(policy, problem.prompt, words),
          .text = problem.prompt,
          .source = name,
          .answer = problem.answer};
}

}  // namespace keel
