#pragma once

#include <deque>
#include <string>
#include <vector>

#include "keel/core/options/options.h"
#include "keel/reward/reward_options.h"

namespace keel {

/// Completions to score, with their prompts.
class SampleBatch {
 public:
  SampleBatch& add(std::string completion, Json answer = Json(), std::string source = "test", int tokens = 3) {
    prompts_.push_back({.id = 100 + samples_.size(),
                        .tokens = {},
                        .text = "Question " + std::to_string(samples_.size()) + "? ",
                        .source = std::move(source),
                        .answer = std::move(answer)});
    samples_.push_back({.prompt = prompts_.back(),
                        .completion = completion,
                        .with_special_tokens = completion + "<eos>",
                        .tokens = std::vector<int32_t>(static_cast<size_t>(tokens), 7),
                        .id = samples_.size()});
    return *this;
  }
  Prompt& last_prompt() { return prompts_.back(); }
  RewardSample& last() { return samples_.back(); }
  const std::vector<RewardSample>& samples() const { return samples_; }

 private:
  std::deque<Prompt> prompts_;  // a deque keeps references valid
  std::vector<RewardSample> samples_;
};

using Rewards = std::vector<std::optional<double>>;

/// Scores with a weighted sum of functions.
inline RewardResult score(const SampleBatch& batch, const RewardOptions& options) {
  return make_reward(options).score(batch.samples());
}

/// Scores with one function.
inline Rewards score(const SampleBatch& batch, const std::string& function) {
  RewardOptions options;
  options.functions = {function};
  return score(batch, options).totals;
}

}  // namespace keel
