#include "keel/data/repeated_rows.h"

#include <map>
#include <string>
#include <tuple>

#include "keel/core/files/json_file.h"

namespace keel {

std::vector<size_t> problem_numbers(std::span<const Prompt> prompts) {
  std::map<std::tuple<std::string, std::vector<int32_t>, std::string>, size_t> seen;
  std::vector<size_t> numbers;
  size_t next = 0;
  for (const Prompt& prompt : prompts) {
    const bool of_a_task = prompt.extra.is_null();
    size_t number = next;
    if (!of_a_task)
      number = seen.try_emplace({prompt.source, prompt.tokens, json_line(prompt.answer)}, next).first->second;
    if (number == next) ++next;
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace keel
