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

/// What a trainer uses besides the policy's weights: the masters, and what a resumed run has saved.
struct AuxiliaryWeights {
  std::optional<MasterWeights> masters = {};  // of the policy; none: its weights are their own
  std::optional<ModelWeights> reference = {};
  std::optional<Critic> critic = {};
};

/// The configured objective, with what the run has adapted so far.
Objective current_objective(const Config& config, const RlState& state);

/// Trains the policy with RL. It owns the reference, the critic, the optimizers and the past policies; it borrows the
/// configuration, the policy and the prompts. It opens no file and prints nothing. READ trainer.cpp FIRST:
/// Trainer::step is the data path.
class Trainer {
 public:
  /// Everything that is given by reference must outlive it. A reference and a critic that the configuration asks for,
  /// and that were not saved, start as the current policy.
  Trainer(const Config& config, const LoadedModel& policy, const PromptSources& prompt_sources,
          AuxiliaryWeights saved = {});

  /// One step: a rollout batch and all its updates. Interrupted when someone asks to stop while it samples or scores;
  /// the step then has not happened.
  StepResult step(TrainState& state, StepWatcher& watcher);
  StepResult step(TrainState& state);

  /// How far sampler and trainer are apart at equal weights, on the next prompts.
  LogprobCheck check_logprobs(const TrainState& state) const;

  const CausalLm* reference() const { return reference_ ? &*reference_ : nullptr; }  // if the objective needs it
  const CriticTraining* critic() const { return critic_ ? &*critic_ : nullptr; }     // if the advantage needs it
  const MasterWeights& masters() const { return optimizer_.masters(); }
  /// What samples are drawn with.
  SamplerWeights sampled_weights(const RlState& state) const;

  /// The optimizers' moments, of the policy and the critic, and the past policies.
  std::vector<NamedTensor> optimizer_state() const;
  /// `at` is the run's progress; tensors that do not fit to it, or to the policy, are an Error (kBadInput).
  void load_optimizer(const std::vector<NamedTensor>& state, const TrainState& at, const std::string& place);

 private:
  RolloutBatch sample_and_score(const TrainState& state, StepMetrics& metrics, StepWatcher& watcher);
  Experience annotate(RolloutBatch batch, StepMetrics& metrics, const StepWatcher& watcher) const;
  void compute_advantages(Experience& experience, const Objective& objective, StepMetrics& metrics) const;
  void update_policy(const Experience& experience, const Objective& objective, TrainState& state, StepMetrics& metrics,
                     StepWatcher& watcher);
  void record(const Experience& experience, const Objective& objective, TrainState& state, StepMetrics& metrics) const;

  void record_rollout_metrics(const RolloutBatch& batch, const TrainState& state, StepMetrics& metrics,
                              StepWatcher& watcher) const;
  std::vector<std::vector<int64_t>> minibatches(const Experience& experience, const RlState& state) const;
  void step_optimizers(TrainState& state, int64_t number, StepMetrics& metrics, GradientNorms& norms,
                       StepWatcher& watcher);
  void certify(const Experience& experience, const RlState& state, StepMetrics& metrics) const;
  void adapt(const Objective& objective, const Experience& experience, RlState& state, StepMetrics& metrics) const;
  bool policy_learns(const RlState& state) const { return state.steps >= config_.critic.warmup_steps; }
  SamplingRequest sampling_request() const;

  const Config& config_;
  const LoadedModel& policy_;
  const PromptSources& prompt_sources_;
  const Objective objective_;          // as configured; current_objective() has what a step uses
  const CausalLm network_;             // of the policy
  std::optional<CausalLm> reference_;  // the policy when RL started
  Optimizer optimizer_;
  std::optional<CriticTraining> critic_;
  BatchSampler sampler_;
  PastPolicies past_policies_;  // of rollout.staleness
};

}  // namespace keel
