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

/// Snapshots of past policies, which sample the batches in flight (rollout.staleness). It owns the snapshots and the
/// background sampler, and borrows the configuration and the batch sampler.
class PastPolicies {
 public:
  PastPolicies(const Config& config, BatchSampler& sampler, at::Device device);

  /// Returns the current step's batch, sampled by the policy of rollout.staleness steps ago. Requires staleness > 0.
  RolloutBatch next_batch(const TrainState& state, const SamplerWeights& current,
                          const std::shared_ptr<StepMeters>& meters);

  /// The snapshots for a checkpoint: "past.STEP.WEIGHT" and "past.STEP.updates". A resumed run samples the batches in
  /// flight again from them.
  std::vector<NamedTensor> state() const;
  /// Tensors that do not match the run's `progress` or the policy are an Error (kBadInput).
  void load(const std::vector<NamedTensor>& state, const TrainState& progress, const SamplerWeights& current,
            const std::string& path);

 private:
  /// The policy at the start of a step.
  struct PastPolicy {
    int64_t step, updates;  // RL steps; updates over all phases
    SamplerWeights weights;
  };

  SamplerWeights snapshot(const SamplerWeights& current) const;
  void request_batches(int64_t first, int64_t end, const std::shared_ptr<StepMeters>& meters);

  const Config& config_;
  std::deque<PastPolicy> past_;               // oldest first
  std::optional<BackgroundSampler> sampler_;  // if rollout.staleness > 0
};

}  // namespace keel
