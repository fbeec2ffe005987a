#pragma once

#include <utility>
#include <vector>

#include "keel/train/trainer.h"
#include "tests/support/tiny_training.h"

namespace keel {

/// The state of a trainer in a checkpoint.
struct SavedTraining {
  ModelWeights weights;  // the master weights
  TrainState state = {.phase = Phase::kRl};
  std::vector<NamedTensor> optimizer = {};
};

/// A trainer with its own policy, new or restored from saved state.
class ResumedTraining {
 public:
  explicit ResumedTraining(const Config& config, const SavedTraining& from = {warm_model()})
      : ResumedTraining(config, from,
                        [](const Config& of, const LoadedModel& policy) { return PromptSources(of, policy); }) {}
  template <class MakePromptSources>
  ResumedTraining(const Config& config, const SavedTraining& from, const MakePromptSources& make_prompt_sources)
      : config_(config),
        policy_(starting_with(config, from.weights)),
        prompt_sources_(make_prompt_sources(config_, policy_)),
        state_(from.state),
        trainer_(config_, policy_, prompt_sources_, {.masters = compute_as_configured(policy_, config)}) {
    if (!from.optimizer.empty()) trainer_.load_optimizer(from.optimizer, state_, "a test");
  }
  ResumedTraining(const ResumedTraining&) = delete;

  StepResult step() { return trainer_.step(state_); }
  StepResult step(StepWatcher& watcher) { return trainer_.step(state_, watcher); }

  SavedTraining saved() const {
    SavedTraining copy{masters(), state_};
    for (const NamedTensor& tensor : trainer_.optimizer_state())
      copy.optimizer.push_back({tensor.name, tensor.value.clone()});
    return copy;
  }
  ModelWeights masters() const {
    return policy_.model.with_replaced(
        [&](const Weight& weight) { return trainer_.masters().value_of(weight).clone(); });
  }
  const TrainState& state() const { return state_; }

 private:
  Config config_;
  LoadedModel policy_;
  PromptSources prompt_sources_;
  TrainState state_;
  Trainer trainer_;
};

/// Returns whether two models have bitwise equal weights.
inline bool same_weights(const ModelWeights& one, const ModelWeights& other) {
  const std::vector<NamedTensor> left = one.parameters(), right = other.parameters();
  for (size_t i = 0; i < left.size(); ++i)
    if (!left[i].value.equal(right[i].value)) return false;
  return left.size() == right.size();
}

}  // namespace keel
