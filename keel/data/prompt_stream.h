#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "keel/core/records.h"

namespace keel {

/// Prompts in a fixed order. The position is one global counter, so a resumed run goes on with exactly the next prompt.
class PromptStream {
 public:
  /// `prompt_at(i)` is the i-th prompt: a pure function.
  explicit PromptStream(std::function<Prompt(uint64_t)> prompt_at) : prompt_at_(std::move(prompt_at)) {}

  std::vector<Prompt> next(int64_t count) {
    std::vector<Prompt> prompts;
    for (int64_t i = 0; i < count; ++i) prompts.push_back(prompt_at_(position_++));
    return prompts;
  }

  uint64_t position() const { return position_; }
  void seek(uint64_t position) { position_ = position; }

 private:
  std::function<Prompt(uint64_t)> prompt_at_;
  uint64_t position_ = 0;
};

}  // namespace keel
