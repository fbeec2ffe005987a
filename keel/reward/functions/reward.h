#pragma once

// A completion in, a number out. docs/rewards.md is the user's page.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/prompt.h"

namespace keel {

/// One completion to be judged.
struct RewardSample {
  const Prompt& prompt;
  std::string completion;                      // without its stop token and other special tokens
  std::string with_special_tokens;             // with them
  std::optional<std::vector<int32_t>> tokens;  // nothing where only the text is known
  bool stopped = true;                         // it ended by itself and was not cut off
  uint64_t id = 0;                             // of its rollout
  uint64_t policy_version = 0;                 // number of updates the sampling weights had seen
};

/// What a reward function said about a batch.
struct Scores {
  std::vector<std::optional<double>> rewards;  // one per sample; nothing: it does not apply to this sample, or failed
  std::map<size_t, std::string> failures;      // sample to reason: it should have judged this one and could not
  std::map<size_t, std::string> notes = {};    // sample to what there is to say about its reward
};

/// The final answer of a completion, as a function reads it.
struct FinalAnswer {
  std::string text;      // empty: there is none
  bool is_math = false;  // two are the same where the math verifier says so; else only equal texts are
};

/// A reward function. Batches are the completions of one prompt, so that results do not depend on who finished when.
class Reward {
 public:
  virtual ~Reward() = default;
  /// May be called from several threads at once.
  virtual Scores operator()(std::span<const RewardSample> samples) const = 0;
  /// Why it cannot judge completions by this answer of a prompt; empty: it can.
  virtual std::string answer_error(const Json& /*answer*/) const { return ""; }
  /// Why no completion could be right by this answer, which it can judge; empty: one could.
  virtual std::string unsolvable_reason(const Json& /*answer*/) const { return ""; }
  /// How a function that judges final answers reads one; nothing: it judges something else.
  virtual std::optional<FinalAnswer> answer(const RewardSample& /*sample*/) const { return std::nullopt; }
  /// Whether it judges final answers and knows two rewards only, 1 for a right one and 0 for a wrong one.
  virtual bool is_binary() const { return false; }
};

}  // namespace keel
