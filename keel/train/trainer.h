#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/model/loaded_model.h"
#include "keel/train/batch_sampler.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/metrics/step_metrics.h"
#include "keel/train/past_policies.h"
#include "keel/train/start/logprob_check.h"
#include "keel/train/start/prompt_sources.h"
#include "keel/train/step_watcher.h"

namespace keel {

/// The training data of a step and its metrics.
struct StepResult {
  Experience experience;
  StepMetrics metrics;
};

/// The weights that a trainer uses in addition to the policy; a resumed run loads them from its checkpoint.
struct AuxiliaryWeights {
  std::optional<MasterWeights> masters = {};  // float32 copies of the policy; none: its weights are the masters
  std::optional<ModelWeights> reference = {};
  std::optional<Critic> critic = {};
};

/// The configured objective with the run's current thresholds and KL coefficient.
Objective current_objective(const Config& config, const RlState& state);

/// Trains the policy with RL. It owns the reference, the critic, the optimizers and the past policies; it borrows the
/// configuration, the policy and the prompts. It opens no file and prints nothing. READ trainer.cpp FIRST:
/// Trainer::step is the data path.
class Trainer {
 public:
  /// All references must outlive the trainer. If a reference or critic is configured but not in `saved`, it starts as a
  /// copy of the policy.
  Trainer(const Config& config, const LoadedModel& policy, const PromptSources& prompt_sources,
          AuxiliaryWeights saved = {});

  /// Runs one step: a rollout batch and all its updates. Throws Interrupted if a stop is requested during sampling or
  /// scoring; the state is then unchanged.
  StepResult step(TrainState& state, StepWatcher& watcher);
  StepResult step(TrainState& state);

  /// Compares the log-probs of sampler and trainer at equal weights, on the next prompts.
  LogprobCheck check_logprobs(const TrainState& state) const;

  const CausalLm* reference() const { return reference_ ? &*reference_ : nullptr; }  // if the objective needs it
  const CriticTraining* critic() const { return critic_ ? &*critic_ : nullptr; }     // if the advantage needs it
  const MasterWeights& masters() const { return optimizer_.masters(); }
  /// The weights that the sampler uses in this state.
  SamplerWeights sampler_weights() const;

  /// The optimizer states of policy and critic, and the past policies.
  std::vector<NamedTensor> optimizer_state() const;
  /// Tensors that do not match the run's `progress` or the policy are an Error (kBadInput), which names `path`.
  void load_optimizer(const std::vector<NamedTensor>& state, const TrainState& progress, const std::string& path);

 private:
  RolloutBatch sample_and_score(const TrainState& state, StepMetrics& metrics, StepWatcher& watcher);
  Experience annotate(RolloutBatch batch, StepMetrics& metrics, const StepWatcher& watcher) const;
  void compute_advantages(Experience& experience, const Objective& objective, StepMetrics& metrics) const;
  void update_policy(const Experience& experience, const Objective& objective, TrainState& state, StepMetrics& metrics,
                     StepWatcher& watcher);
  void finish_step(const Experience& experience, const Objective& objective, TrainState& state,
                   StepMetrics& metrics) const;

  void record_rollout_metrics(const RolloutBatch& batch, const TrainState& state, StepMetrics& metrics,
                              StepWatcher& watcher) const;
  std::vector<std::vector<int64_t>> minibatches(const Experience& experience, const RlState& state) const;
  void step_optimizers(TrainState& state, int64_t index, StepMetrics& metrics, GradientNorms& norms,
                       StepWatcher& watcher);
  void certify(const Experience& experience, const RlState& state, StepMetrics& metrics) const;
  void adapt(const Objective& objective, const Experience& experience, RlState& state, StepMetrics& metrics) const;
  bool updates_policy(const RlState& state) const { return state.steps >= config_.critic.warmup_steps; }
  SamplingRequest sampling_request() const;

  const Config& config_;
  const LoadedModel& policy_;
  const PromptSources& prompt_sources_;
  const Objective configured_objective_;  // as configured; current_objective() has what a step uses
  const CausalLm network_;                // of the policy
  std::optional<CausalLm> reference_;     // the policy when RL started
  Optimizer optimizer_;
  std::optional<CriticTraining> critic_;
  BatchSampler sampler_;
  PastPolicies past_policies_;  // for rollout.staleness
};

}  // namespace keel
