#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel {

/// One problem to sample completions for.
struct Prompt {
  uint64_t id = 0;              // place in the prompt stream: a global counter, so a resumed run goes on exactly
  std::vector<int32_t> tokens;  // what the model is given
  std::string text;             // the same, as text
  std::string source;           // the task or data set it came from
  Json answer;                  // what the checker needs to judge a completion
  Json messages = nullptr;      // the conversation that is its row's prompt; null where that is a text
  std::string row_text = "";    // its row's text, where a conversation was made of that; empty where it is `text`
  Json extra = nullptr;         // the other columns of its row, for rewards; null for a built-in task
};

}  // namespace keel
