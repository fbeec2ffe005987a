#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/train/background_sampler.h"
#include "keel/train/batch_sampler.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/step_watcher.h"

namespace keel {

/// The policies that batches in flight are sampled with (rollout.staleness). It owns their snapshots and the background
/// sampler, and borrows the configuration and the batch sampler.
class PastPolicies {
 public:
  PastPolicies(const Config& config, BatchSampler& sampler, at::Device device);

  /// The batch of the step that begins with the current weights, of rollout.staleness steps ago. Not with staleness 0.
  RolloutBatch next_batch(const TrainState& state, const SamplerWeights& current,
                          const std::shared_ptr<StepMeters>& meters);

  /// The snapshots, for a checkpoint: "past.STEP.WEIGHT" and "past.STEP.updates". With them, a resumed run samples the
  /// batches in flight again.
  std::vector<NamedTensor> state() const;
  /// `at` is the run's progress; tensors that do not fit to it, or to the policy, are an Error (kBadInput).
  void load(const std::vector<NamedTensor>& state, const TrainState& at, const SamplerWeights& current,
            const std::string& place);

 private:
  /// The policy as a step began with it.
  struct PastPolicy {
    int64_t step, updates;  // in the RL phase; over all phases
    SamplerWeights weights;
  };

  SamplerWeights snapshot(const SamplerWeights& current) const;
  void request_batches(int64_t first, int64_t end, const std::shared_ptr<StepMeters>& meters);

  const Config& config_;
  std::deque<PastPolicy> past_;             // oldest first
  std::optional<BackgroundSampler> ahead_;  // with rollout.staleness
};

}  // namespace keel
