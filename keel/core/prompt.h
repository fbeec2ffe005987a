#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel {

/// One problem to sample completions for.
struct Prompt {
  uint64_t id = 0;              // index in the prompt stream: a global counter, which a resumed run continues
  std::vector<int32_t> tokens;  // the model's input
  std::string text;             // the input as text
  std::string source;           // the task or data set it came from
  Json answer;                  // the reference answer for the reward function
  Json messages = nullptr;      // the row's prompt if that is a conversation; null if it is a text
  std::string row_text = "";    // the row's text, if the chat template was applied to it; else empty
  Json extra = nullptr;         // the other columns of the row, for rewards; null for a built-in task
};

}  // namespace keel
