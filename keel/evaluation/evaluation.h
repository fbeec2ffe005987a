#pragma once

#include <functional>
#include <span>
#include <vector>

#include "keel/core/live_progress.h"
#include "keel/core/prompt.h"
#include "keel/evaluation/statistics.h"
#include "keel/reward/score.h"
#include "keel/rollout/engine.h"
#include "keel/task/task.h"

namespace keel {

struct EvaluationRequest {
  int64_t samples = 1;       // per prompt
  double temperature = 1.0;  // 0 is greedy
  SamplingFilter filter = {};
  int64_t max_new_tokens = 1;
  std::vector<int32_t> stop_ids = {};  // none: the tokenizer's eos
  std::vector<std::string> stop_strings = {};
  uint64_t seed = 0;
  int64_t max_sequences = 1024;  // maximum decode batch
  size_t reward_threads = 1;     // threads that score groups
  uint64_t policy_version = 0;   // number of updates of the weights, for reward functions that read it
};

/// The metric name of the mean reward.
inline const char* mean_name(bool is_accuracy) { return is_accuracy ? "accuracy" : "reward"; }

struct Evaluation {
  int64_t count = 0;         // evaluated rows, or problems of a task; fewer than requested after an interrupt
  double mean = 0;           // mean reward; interval() is that of the first measure
  bool is_accuracy = false;  // every reward is 1 (correct) or 0 (wrong)
  double length_mean = 0, truncated = 0;
  EvaluationStatistics statistics;
  ScoreReport scores;             // per reward function, with failures
  std::vector<Rollout> rollouts;  // in the order of the prompts, the samples of a prompt next to each other
  std::vector<Verdict> verdicts;  // of each rollout

  const std::optional<Interval>& interval() const { return statistics.all.measures.front().estimate.interval; }
  const char* mean_name() const { return keel::mean_name(is_accuracy); }
  /// Returns whether any completion has a reward. Otherwise the mean and the measures are undefined.
  bool has_rewards() const { return statistics.all.unscored < static_cast<int64_t>(verdicts.size()); }
};

/// Samples and scores completions. The results depend only on the prompts, their ids and the request. Calls `stop`
/// between batches of about `max_sequences` completions and, while a batch is scored, between prompts; an incomplete
/// batch is dropped. `meter` shows the progress.
Evaluation evaluate(const RolloutEngine& engine, std::span<const Prompt> prompts, const RewardSum& reward,
                    const EvaluationRequest& request, const std::function<bool()>& stop = {},
                    StageMeter* meter = nullptr);

/// Adds the evaluation's keys to a row of metrics.jsonl: eval/accuracy (or eval/reward) and so on; with several samples
/// per prompt eval/pass@k and eval/maj@k; with several sources also eval/SOURCE/pass@k. Omits what was not measured.
void write_evaluation(const Evaluation& evaluation, Json& row);

/// One completion as a row of a samples file.
Json evaluation_sample(const Prompt& prompt, const Rollout& rollout, const Verdict& verdict);

}  // namespace keel
