#include "keel/data/problem_indices.h"

#include <map>
#include <string>
#include <tuple>

#include "keel/core/files/json_file.h"

namespace keel {

std::vector<size_t> problem_indices(std::span<const Prompt> prompts) {
  std::map<std::tuple<std::string, std::vector<int32_t>, std::string>, size_t> seen;
  std::vector<size_t> indices;
  size_t next = 0;
  for (const Prompt& prompt : prompts) {
    const bool from_task = prompt.extra.is_null();
    size_t index = next;
    if (!from_task)
      index = seen.try_emplace({prompt.source, prompt.tokens, json_line(prompt.answer)}, next).first->second;
    if (index == next) ++next;
    indices.push_back(index);
  }
  return indices;
}

}  // namespace keel
