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

/// The rollouts of a step with their rewards, and the metrics of all that was sampled for them.
struct RolloutBatch {
  SamplerWeights weights;  // that sampled it
  std::vector<Prompt> prompts = {};
  std::vector<Rollout> rollouts = {};  // in the order of the prompts, samples_per_prompt each
  uint64_t policy_version = 0;         // of every token
  uint64_t position = 0;               // of the prompt stream: where the next batch begins
  SkippedCounts skipped_rows = {};     // rows that gave no prompt
  ScoreReport scores = {};             // these and all below: of everything that was sampled, also what was dropped
  RolloutMetrics metrics = {};
  GroupMetrics groups = {};
  size_t completions = 0;
  int64_t tokens = 0;
  std::vector<std::string> warnings = {};  // sentences
  double reward_seconds = 0;               // that scoring took longer than sampling
  double rollout_seconds = 0;              // all the rest
};

/// Samples batches and has them scored. It owns the sampling request, and borrows configuration, tokenizer, prompts and
/// rewards, none of which training changes: it may work on a thread of its own.
class BatchSampler {
 public:
  /// All references must outlive it. `request` has the settings of every completion.
  BatchSampler(const Config& config, const LoadedModel& policy, const PromptSources& prompt_sources,
               SamplingRequest request);

  /// Called while a batch is sampled: the progress meter, and `keep_on` after every token, which may cancel the batch
  /// by throwing.
  struct Events {
    StageMeter& meter;
    std::function<void()> keep_on = {};
  };

  /// Samples the batch that begins at this position of the prompt stream, with these weights.
  RolloutBatch sample(uint64_t position, const SamplerWeights& weights, uint64_t policy_version, const Events& events);

 private:
  std::vector<Rollout> draw(const RolloutEngine& engine, std::span<const Prompt> prompts, RolloutBatch& batch,
                            const Events& events);
  void fill(const RolloutEngine& engine, PromptStream& stream, RolloutBatch& batch, const Events& events);

  const Config& config_;
  const LoadedModel& policy_;
  const PromptSources& prompt_sources_;
  SamplingRequest request_;
  bool warned_few_groups_ = false, warned_few_threads_ = false;
};

}  // namespace keel
