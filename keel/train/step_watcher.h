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

/// A step's training data: rollouts with their rewards, what the method requires besides, and the tokens' advantages.
struct Experience {
  std::vector<Prompt> prompts;
  std::vector<Rollout> rollouts;  // those with a reward
  std::vector<std::optional<int64_t>> trained_index =
      {};  // index among them of each sampled rollout that is trained on
  TokenAdvantages token_advantages = {};
  Tensor behavior_head = {};  // of the weights that sampled, if their hidden states were recorded
  uint64_t position = 0;      // of the prompt stream, after the prompts

  ScoredRollouts scored() const {
    return {rollouts, token_advantages.advantages, behavior_head, token_advantages.returns};
  }
};

/// Progress of the sampler and of the trainer within a step.
struct StepMeters {
  StageMeter sampling, training;

  /// What a step waits for.
  std::string text() const {
    const std::string trained = training.text();
    return trained.empty() ? sampling.text() : trained;
  }
};

/// Receives the events of a step: a run informs its user and writes its log, a test checks between the stages. It owns
/// the meters, together with a background sampler, and borrows the arguments of each call.
class StepWatcher {
 public:
  virtual ~StepWatcher() = default;
  /// Another thread may read them.
  const std::shared_ptr<StepMeters> meters = std::make_shared<StepMeters>();
  virtual void on_skipped_rows(const SkippedCounts& /*rows*/) {}
  /// Something was done differently from what was asked for; a sentence.
  virtual void on_warning(const std::string& /*sentence*/) {}
  virtual void on_scored(const ScoreReport& /*report*/, size_t /*completions*/) {}
  /// All is computed that the updates need; none was made yet.
  virtual void on_experience(const Experience& /*experience*/) {}
  /// Sequence s of a packed batch is rollout minibatch[s].
  virtual void on_tokens(const TokenUpdate& /*tokens*/, std::span<const int64_t> /*minibatch*/) {}
  /// The minibatch's gradients are accumulated.
  virtual void on_gradients(std::span<const int64_t> /*minibatch*/) {}
  /// A gradient was not finite; the state has counted it. A loss scale that may have caused it is halved.
  virtual void on_skipped_update(bool /*overflowed*/) {}
};

}  // namespace keel
