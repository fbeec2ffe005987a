#pragma once

// The interface of reward functions (docs/rewards.md).

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/prompt.h"

namespace keel {

/// A completion to score.
struct RewardSample {
  const Prompt& prompt;
  std::string completion;                      // without special tokens
  std::string with_special_tokens;             // including the stop token and other special tokens
  std::optional<std::vector<int32_t>> tokens;  // std::nullopt if only the text is known
  bool stopped = true;                         // it ended with a stop token or string
  uint64_t id = 0;                             // id of the rollout
  uint64_t policy_version = 0;                 // number of updates of the sampling weights
};

/// The result of a reward function for a batch.
struct Scores {
  std::vector<std::optional<double>> rewards;  // one per sample; std::nullopt: not applicable, or failed
  std::map<size_t, std::string> failures;      // sample to reason of the failure
  std::map<size_t, std::string> notes = {};    // sample to a remark about its reward
};

/// The final answer of a completion.
struct FinalAnswer {
  std::string text;      // empty if there is none
  bool is_math = false;  // compared by the math verifier, else as text
};

/// A reward function. A batch has the completions of one prompt, so that results do not depend on the order of
/// finishing.
class Reward {
 public:
  virtual ~Reward() = default;
  /// May be called from several threads at once.
  virtual Scores operator()(std::span<const RewardSample> samples) const = 0;
  /// Returns why it cannot use this answer of a prompt; empty if it can.
  virtual std::string answer_error(const Json& /*answer*/) const { return ""; }
  /// Returns why no completion can match this answer; empty if one can.
  virtual std::string unsolvable_reason(const Json& /*answer*/) const { return ""; }
  /// Extracts the final answer; std::nullopt if the function does not score final answers.
  virtual std::optional<FinalAnswer> answer(const RewardSample& /*sample*/) const { return std::nullopt; }
  /// Returns whether it scores final answers with 1 (correct) or 0 only.
  virtual bool is_binary() const { return false; }
};

}  // namespace keel
