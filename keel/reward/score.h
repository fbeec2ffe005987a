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

/// What came of scoring some groups, in the order of their prompts.
struct ScoreReport {
  struct Function {
    std::string name;
    double sum = 0;
    int64_t count = 0;  // completions that it judged
  };
  std::vector<Function> functions;
  int64_t unscored = 0;               // completions that no function judged
  std::vector<std::string> failures;  // one sentence for each completion that a function failed on

  void add(const ScoreReport& other);
};

/// What is remembered of all reports of a run.
class ScoreTally {
 public:
  /// What to tell at once: the first failure of all.
  std::optional<std::string> add(const ScoreReport& report, size_t completions);
  /// What to tell at the end: how much failed, and functions that judged nothing.
  std::vector<std::string> warnings() const;

 private:
  std::vector<ScoreReport::Function> functions_;
  size_t completions_ = 0, failures_ = 0;
};

/// The completions of one group, as its judges get them: copies, all but the prompt.
std::vector<RewardSample> make_reward_samples(std::span<const Rollout> group, std::span<const Prompt> prompts,
                                              const Tokenizer& tokenizer);

struct GroupScore {
  ScoreReport report;
  RewardResult result;  // what each function said, and the rewards: its totals

  /// Gives the rollout of this place in the group its reward; without one it is not judged.
  void set_reward(size_t index, Rollout& rollout) const;
};

GroupScore score_group(std::span<const RewardSample> samples, const RewardSum& reward);

}  // namespace keel
