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
  Truncation truncation = {};
  int64_t max_new_tokens = 1;
  std::vector<int32_t> stop_ids = {};  // none: the tokenizer's eos
  std::vector<std::string> stop_strings = {};
  uint64_t seed = 0;
  int64_t max_sequences = 1024;  // decoded together
  size_t reward_threads = 1;     // that score groups at once
  uint64_t policy_version = 0;   // the updates that the weights have seen, for rewards that ask
};

/// What the mean of rewards is called.
inline const char* mean_name(bool is_accuracy) { return is_accuracy ? "accuracy" : "reward"; }

struct Evaluation {
  int64_t count = 0;         // rows, or problems of a task: fewer than asked for when it was told to stop
  double mean = 0;           // of the rewards; its interval is that of the first measure
  bool is_accuracy = false;  // every reward is 1 for a right answer or 0 for a wrong one
  double length_mean = 0, truncated = 0;
  EvaluationStatistics statistics;
  ScoreReport scores;             // by function, and what failed
  std::vector<Rollout> rollouts;  // the samples of each prompt side by side, in the order of the prompts
  std::vector<Verdict> verdicts;  // of each rollout

  const std::optional<Interval>& interval() const { return statistics.all.measures.front().estimate.interval; }
  const char* mean_name() const { return keel::mean_name(is_accuracy); }
  /// Whether any completion was judged: the mean and the measures mean something.
  bool judged() const { return statistics.all.unjudged < static_cast<int64_t>(verdicts.size()); }
};

/// Samples and judges. The numbers depend on the prompts, their ids and the request alone. `stop` is asked between
/// batches of about `max_sequences` completions and, while these are judged, between prompts; of a batch that is not
/// judged to its end nothing is kept. `meter` says how far it is.
Evaluation evaluate(const RolloutEngine& engine, std::span<const Prompt> prompts, const RewardSum& reward,
                    const EvaluationRequest& request, const std::function<bool()>& stop = {},
                    StageMeter* meter = nullptr);

/// The keys of metrics.jsonl: eval/accuracy (eval/reward where the mean is none) and so on; with several samples
/// eval/pass@k and eval/maj@k, and with several sources the same as eval/SOURCE/pass@k. What was not measured is left
/// out.
void write_evaluation(const Evaluation& evaluation, Json& row);

/// One completion of an evaluation, for a file of samples.
Json evaluation_sample(const Prompt& prompt, const Rollout& rollout, const Verdict& verdict);

}  // namespace keel
