#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/live_progress.h"
#include "keel/model/loaded_model.h"
#include "keel/reward/scoring_queue.h"
#include "keel/train/config/config.h"
#include "keel/train/metrics/rollout_metrics.h"
#include "keel/train/start/prompt_sources.h"

namespace keel {

/// The rollouts of a step with their rewards, and the metrics of everything sampled for them.
struct RolloutBatch {
  SamplerWeights weights;  // of the sampler
  std::vector<Prompt> prompts = {};
  std::vector<Rollout> rollouts = {};  // samples_per_prompt for each prompt, in the order of the prompts
  uint64_t policy_version = 0;         // number of updates of the weights that sampled
  uint64_t position = 0;               // in the prompt stream where the next batch begins
  SkippedCounts skipped_rows = {};     // rows without a usable prompt
  ScoreReport scores = {};             // this and all fields below include dropped groups
  RolloutMetrics metrics = {};
  GroupMetrics groups = {};
  size_t completions = 0;
  int64_t tokens = 0;
  std::vector<std::string> warnings = {};
  double reward_seconds = 0;   // of scoring after sampling had ended
  double rollout_seconds = 0;  // of everything else
};

/// Samples batches and scores them. It owns the sampling request, and borrows configuration, tokenizer, prompts and
/// rewards. Training changes none of these, so the sampler may run on its own thread.
class BatchSampler {
 public:
  /// All references must outlive the sampler. `request` has the sampling settings.
  BatchSampler(const Config& config, const LoadedModel& policy, const PromptSources& prompt_sources,
               SamplingRequest request);

  /// Observers of a batch in progress: the progress meter, and `check_cancelled`, which cancels the batch by throwing.
  /// It is called after every decode step and by the scoring threads.
  struct Events {
    StageMeter& meter;
    std::function<void()> check_cancelled = {};
  };

  /// Samples the batch that begins at `position` in the prompt stream.
  RolloutBatch sample(uint64_t position, const SamplerWeights& weights, uint64_t policy_version, const Events& events);

 private:
  std::vector<Rollout> sample_and_score(const RolloutEngine& engine, std::span<const Prompt> prompts,
                                        RolloutBatch& batch, const Events& events);
  void sample_dynamically(const RolloutEngine& engine, PromptStream& stream, RolloutBatch& batch, const Events& events);

  const Config& config_;
  const LoadedModel& policy_;
  const PromptSources& prompt_sources_;
  SamplingRequest request_;
  bool warned_few_groups_ = false, warned_few_threads_ = false;
};

}  // namespace keel
