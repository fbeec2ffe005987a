#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/live_progress.h"
#include "keel/core/prompt.h"
#include "keel/core/tensor/rollout.h"
#include "keel/data/prompt_stream.h"
#include "keel/reward/score.h"
#include "keel/train/update/policy_update.h"
#include "keel/train/update/token_advantages.h"

namespace keel {

/// A step's training data: rollouts with rewards, the log-probs and values that the method needs, and advantages.
struct Experience {
  std::vector<Prompt> prompts;
  std::vector<Rollout> rollouts;  // only those with a reward
  std::vector<std::optional<int64_t>> trained_index =
      {};  // of each sampled rollout in `rollouts`; none: not trained on
  TokenAdvantages token_advantages = {};
  Tensor behavior_head = {};  // LM head of the sampler, if its hidden states were recorded
  uint64_t position = 0;      // in the prompt stream, after these prompts

  ScoredRollouts scored() const {
    return {rollouts, token_advantages.advantages, behavior_head, token_advantages.returns};
  }
};

/// Progress of the sampler and of the trainer within a step.
struct StepMeters {
  StageMeter sampling, training;

  /// The stage that the step currently waits for.
  std::string text() const {
    const std::string trained = training.text();
    return trained.empty() ? sampling.text() : trained;
  }
};

/// Receives the events of a step: a run prints and logs them, a test checks between the stages. It shares ownership of
/// the meters with a background sampler, and borrows the arguments of each call.
class StepWatcher {
 public:
  virtual ~StepWatcher() = default;
  /// Other threads may read the meters.
  const std::shared_ptr<StepMeters> meters = std::make_shared<StepMeters>();
  virtual void on_skipped_rows(const SkippedCounts& /*rows*/) {}
  /// The step deviates from the configuration, for example fewer groups than configured.
  virtual void on_warning(const std::string& /*text*/) {}
  virtual void on_scored(const ScoreReport& /*report*/, size_t /*completions*/) {}
  /// The training data is complete, and no update was made yet.
  virtual void on_experience(const Experience& /*experience*/) {}
  /// Called for each chunk of tokens. Sequence s of the packed batch is rollout minibatch[s].
  virtual void on_tokens(const TokenUpdate& /*tokens*/, std::span<const int64_t> /*minibatch*/) {}
  /// The minibatch's gradients are accumulated.
  virtual void on_gradients(std::span<const int64_t> /*minibatch*/) {}
  /// An update was skipped for a non-finite gradient, and is already counted. `overflowed`: the loss scale was halved.
  virtual void on_skipped_update(bool /*overflowed*/) {}
};

}  // namespace keel
