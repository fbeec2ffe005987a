#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/prompt.h"
#include "keel/core/tensor/rollout.h"
#include "keel/reward/reward_sum.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// Statistics of scored groups.
struct ScoreReport {
  struct Function {
    std::string name;
    double sum = 0;
    int64_t count = 0;  // completions that it scored
  };
  std::vector<Function> functions;
  int64_t unscored = 0;               // completions without a reward
  std::vector<std::string> failures;  // one message per failed completion

  void add(const ScoreReport& other);
};

/// Sums the reports of a run.
class ScoreTally {
 public:
  /// Returns the first failure of the run, for an immediate warning.
  std::optional<std::string> add(const ScoreReport& report, size_t completions);
  /// Returns the warnings for the end of the run: the failures, and functions that scored nothing.
  std::vector<std::string> warnings() const;

 private:
  std::vector<ScoreReport::Function> functions_;
  size_t completions_ = 0, failures_ = 0;
};

/// Builds the input of the reward functions for one group. Copies everything except the prompt.
std::vector<RewardSample> make_reward_samples(std::span<const Rollout> group, std::span<const Prompt> prompts,
                                              const Tokenizer& tokenizer);

struct GroupScore {
  ScoreReport report;
  RewardResult result;
  std::vector<double> weights = {};  // of the functions

  /// Sets the rewards of the rollout with this index in the group; it may be unscored.
  void set_reward(size_t index, Rollout& rollout) const;
};

GroupScore score_group(std::span<const RewardSample> samples, const RewardSum& reward);

}  // namespace keel
