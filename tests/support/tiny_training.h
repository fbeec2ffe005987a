#pragma once

#include <ATen/ATen.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/tensor/device.h"
#include "keel/core/tensor/precision.h"
#include "keel/rollout/sampling_weights.h"
#include "keel/task/task_table.h"
#include "keel/train/sft_trainer.h"
#include "keel/train/start/starting_model.h"
#include "keel/train/trainer.h"
#include "tests/support/reference_model.h"

namespace keel {

/// Short problems for a small network: two updates of 12 completions in a step, the second one off-policy.
inline Config tiny_run(const std::string& method) {
  Config config = quickstart_config();
  // Unique to this process, because the tests of another build may run at the same time.
  config.run.dir = std::filesystem::temp_directory_path() / ("keel_tiny_training_" + std::to_string(getpid()));
  config.model.hidden_size = 16;
  config.model.heads = 2;
  config.task.steps = 1;
  config.task.modulus = 2;
  config.sft.steps = 0;
  config.train.prompts_per_step = 3;
  config.rollout.samples_per_prompt = 4;
  config.train.sequences_per_update = 0;
  config.train.epochs = 2;
  config.train.tokens_per_batch = 60;  // several packed batches in an update
  config.objective.method = method;
  if (make_objective(config.objective, 1).requirements().value) config.critic.body = "separate";
  config.optimizer.lr = 1e-2;
  return config;
}

inline ModelWeights copy_of(const ModelWeights& model) {
  return ModelWeights::from_tensors(model.config(), model.parameters(), at::kCPU, "a copy");
}

inline void copy_weights(const ModelWeights& from, const ModelWeights& to) {
  const std::vector<NamedTensor> source = from.parameters(), target = to.parameters();
  for (size_t i = 0; i < source.size(); ++i) target[i].value.copy_(source[i].value);
}

/// A model after a short SFT. It writes valid completions with many wrong answers, so that rewards differ. Created
/// once.
inline const ModelWeights& warm_model() {
  static const ModelWeights model = [] {
    Config config = tiny_run("dppo_tv");
    use_threads(config.run.threads);
    config.sft.steps = 1000;
    config.sft.lr = 1e-2;
    const LoadedModel policy = load_starting_model(config, {at::kCPU});
    Demonstrations demonstrations(config, policy);
    SftTrainer sft(config, policy, MasterWeights(policy.model.trainable()), demonstrations);
    TrainState state;
    StepWatcher no_watcher;
    for (int step = 0; step < 60; ++step) sft.step(demonstrations.next(state.sft), state, no_watcher);
    return copy_of(policy.model);
  }();
  return model;
}

using Gradients = std::map<std::string, Tensor>;

/// Returns the gradients of the trainable weights.
inline Gradients gradients_of(const std::vector<NamedWeight>& weights) {
  Gradients result;
  for (const auto& [name, weight] : weights) result[name] = weight.sink()->sum().clone();
  return result;
}

inline void clear_gradients(const std::vector<NamedWeight>& weights) {
  for (const NamedWeight& weight : weights) weight.weight.sink()->sum().zero_();
}

/// Loads the starting model of a configuration in float32 and replaces its weights.
inline LoadedModel starting_with(const Config& config, const ModelWeights& weights) {
  use_threads(config.run.threads);  // like a run
  LoadedModel start = load_starting_model(config, {at::kCPU});
  copy_weights(weights, start.model);
  return start;
}

inline MasterWeights compute_as_configured(LoadedModel& model, const Config& config) {
  return model.model.set_compute_type(compute_type(config.run.precision, at::kCPU));
}

/// A trainer without a run, with callbacks between the stages of a step.
class TinyTraining : private StepWatcher {
 public:
  /// The policy starts from a new model or from `start`. The reference starts the same unless `reference` is given.
  explicit TinyTraining(const Config& config) : TinyTraining(config, load_starting_model(config, {at::kCPU}).model) {}
  TinyTraining(const Config& config, const ModelWeights& start, std::optional<ModelWeights> reference = {})
      : config_(config),
        policy_(starting_with(config, start)),
        prompt_sources_(config, policy_),
        trainer_(config_, policy_, prompt_sources_,
                 {.masters = compute_as_configured(policy_, config), .reference = std::move(reference)}),
        sampler_(policy_.model),
        old_(policy_.model) {}
  TinyTraining(const TinyTraining&) = delete;

  std::function<void()> when_ready = [] {}, when_updating = [] {};
  TokenObserver when_decided = [](const TokenUpdate&) {};

  const StepMetrics& step() {
    outcome_ = trainer_.step(state_, *this);
    experience_ = &outcome_.experience;
    return outcome_.metrics;
  }

  /// Returns the policy gradients of an update on all rollouts, in batches of `tokens_per_batch`.
  Gradients gradients(int64_t tokens_per_batch, const TokenObserver& observe, const AuxLoss& also = {}) const {
    clear_gradients(model().trainable());
    accumulate_policy_gradients(model(), objective(), {.temperature = temperature(), .aux_loss = also},
                                tokens_per_batch, experience().scored(), all_rollouts(), observe);
    return gradients_of(model().trainable());
  }
  std::vector<int64_t> all_rollouts() const {
    std::vector<int64_t> all(rollouts().size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  const Config& config() const { return config_; }
  const TrainState& state() const { return state_; }
  Objective objective() const { return current_objective(config_, state_.rl); }
  const ModelWeights& model() const { return policy_.model; }  // the policy being trained
  const ModelWeights& sampler() const { return sampler_; }     // the sampler's weights in this step
  const ModelWeights& old() const { return old_; }             // the policy at the start of this step
  const ModelWeights& reference() const { return trainer_.reference()->weights(); }
  const Critic& critic() const { return trainer_.critic()->critic(); }
  const Experience& experience() const { return *experience_; }  // of the current step, or of the last one
  const std::vector<Prompt>& prompts() const { return experience_->prompts; }
  const std::vector<Rollout>& rollouts() const { return experience_->rollouts; }
  const std::vector<std::vector<float>>& advantages() const { return experience_->token_advantages.advantages; }
  double temperature() const { return config_.rollout.temperature; }
  int64_t max_completion_tokens() const { return resolve_max_new_tokens(config_); }

 private:
  void on_experience(const Experience& experience) override {
    experience_ = &experience;
    sampler_ =
        copy_of(model().merged(trainer_.masters(), sampling_precision(config_.rollout.weights).rounding.weights));
    old_ = copy_of(model());
    when_ready();
  }
  void on_tokens(const TokenUpdate& tokens, std::span<const int64_t>) override { when_decided(tokens); }
  void on_gradients(std::span<const int64_t>) override { when_updating(); }

  Config config_;
  LoadedModel policy_;
  PromptSources prompt_sources_;
  TrainState state_{.phase = Phase::kRl};
  Trainer trainer_;
  ModelWeights sampler_, old_;
  StepResult outcome_;
  const Experience* experience_ = nullptr;
};

}  // namespace keel
