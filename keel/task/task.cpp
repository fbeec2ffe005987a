#include "keel/task/task.h"

namespace keel {

std::vector<int32_t> encode_completion(const Tokenizer& tokenizer, std::string_view completion, int32_t stop_id) {
  const bool stops = completion.ends_with(kEosText);
  if (stops) completion.remove_suffix(kEosText.size());
  if (stops && completion.ends_with(' ')) completion.remove_suffix(1);
  std::vector<int32_t> tokens = tokenizer.encode(completion);
  if (stops) tokens.push_back(stop_id);
  return tokens;
}

}  // namespace keel
