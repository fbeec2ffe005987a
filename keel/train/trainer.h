#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/model/loaded_model.h"
#include "keel/train/batch_sampler.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/metrics/step_row.h"
#include "keel/train/sampling_ahead.h"
#include "keel/train/start/agreement.h"
#include "keel/train/start/problems.h"
#include "keel/train/step_watcher.h"

namespace keel {

/// What came of a step.
struct StepOutcome {
  Experience experience;
  StepNumbers numbers;
};

/// What a trainer learns with besides the policy, where a run that goes on has it from before.
struct Companions {
  std::optional<CausalLm> reference = {};
  std::optional<Critic> critic = {};
};

/// The configured objective, with what the run has adapted so far.
Objective objective_at(const Config& config, const RlState& state);

/// What learns in RL: policy, reference, critic, optimizer, objective. It opens no file and prints nothing. READ
/// trainer.cpp FIRST: Trainer::step is the data path.
class Trainer {
 public:
  /// Everything that is given by reference must outlive it. A reference and a critic that the configuration asks for
  /// and nobody saved start as the policy is now.
  Trainer(const Config& config, const LoadedModel& policy, const Problems& problems, Companions saved = {});

  /// One step: a rollout batch and all its updates. Interrupted when someone asks to stop while it samples or scores;
  /// the step then has not happened.
  StepOutcome step(TrainState& state, StepWatcher& watcher);
  StepOutcome step(TrainState& state);

  /// How far sampler and trainer are apart at equal weights, on the next prompts.
  Agreement agreement(const TrainState& state) const;

  const CausalLm* reference() const { return reference_ ? &*reference_ : nullptr; }  // where the objective asks for it
  const Critic* critic() const { return critic_ ? &critic_->critic() : nullptr; }    // where the advantage asks for it

  /// The optimizers' moments, of the policy and the critic, and the past weights that batches under way are sampled
  /// with: sampled again, they are the same.
  std::vector<NamedTensor> optimizer_state() const;
  /// `at` is where the run stood; what does not fit to it, or to the policy, is an Error (kBadInput).
  void load_optimizer(const std::vector<NamedTensor>& state, const TrainState& at, const std::string& place);

 private:
  /// The policy as a step left it.
  struct PastPolicy {
    int64_t step, updates;  // in the RL phase; over all phases
    CausalLm weights;
  };

  RolloutBatch next_batch(const TrainState& state, const StepWatcher& watcher);
  RolloutBatch next_stale_batch(const TrainState& state, const StepWatcher& watcher);
  void ask_for_batches(const TrainState& state, int64_t last, const StepWatcher& watcher);
  void remember_policy(const TrainState& state);
  CausalLm snapshot() const;
  CausalLm training_model(const TrainState& state) const;
  void note(const RolloutBatch& batch, const TrainState& state, StepNumbers& numbers, StepWatcher& watcher) const;
  Experience experience_of(RolloutBatch batch, const StepWatcher& watcher) const;
  void load_past_policies(const std::vector<NamedTensor>& state, const TrainState& at, const std::string& place);
  void find_worth(Experience& experience, const Objective& objective, StepNumbers& numbers) const;
  void learn_from(const Experience& experience, const Objective& objective, TrainState& state, StepNumbers& numbers,
                  StepWatcher& watcher);
  void update(TrainState& state, int64_t number, StepNumbers& numbers, GradientNorms& norms, StepWatcher& watcher);
  void certify(const Experience& experience, const TrainState& state, StepNumbers& numbers) const;
  void adapt(const Objective& objective, const Experience& experience, RlState& state, StepNumbers& numbers) const;
  std::vector<std::vector<int64_t>> minibatches(const TrainState& state, int64_t epoch) const;
  bool policy_learns(const TrainState& state) const { return state.rl.steps >= config_.critic.warmup_steps; }
  SamplingRequest sampling_request() const;

  const Config& config_;
  const LoadedModel& policy_;
  const Problems& problems_;
  const Objective objective_;          // as configured; objective_at() has what a step uses
  std::optional<CausalLm> reference_;  // the policy when RL started
  Optimizer optimizer_;
  std::optional<CriticTraining> critic_;
  BatchSampler sampler_;
  std::deque<PastPolicy> past_;           // that batches not yet trained on are sampled with, oldest first
  int64_t next_asked_ = 0;                // the step whose batch is asked for next
  std::unique_ptr<SamplingAhead> ahead_;  // with rollout.staleness
};

}  // namespace keel
