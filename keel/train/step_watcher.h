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

/// What a step learns from: completions with their rewards and whatever else the method asks for, and what each of
/// their tokens is worth.
struct Experience {
  std::vector<Prompt> prompts;
  std::vector<Rollout> rollouts;                    // those that were judged
  std::vector<std::optional<int64_t>> places = {};  // among them of all that was sampled and is learned from
  TokenWorth worth = {};
  Tensor behavior_head = {};  // of the weights that sampled, where their hidden states were recorded
  uint64_t position = 0;      // of the prompt stream, behind the prompts

  ScoredRollouts scored() const { return {rollouts, worth.advantages, behavior_head, worth.returns}; }
};

/// How far the sampler and the trainer are with what they are doing.
struct StepMeters {
  StageMeter sampling, training;

  /// What a step waits for.
  std::string text() const {
    const std::string trained = training.text();
    return trained.empty() ? sampling.text() : trained;
  }
};

/// Told what happens in a step, when it happens: a run tells its user and its log, a test looks between the stages.
class StepWatcher {
 public:
  virtual ~StepWatcher() = default;
  /// For whoever shows it meanwhile, on another thread; a sampler beside the training has them, too.
  const std::shared_ptr<StepMeters> meters = std::make_shared<StepMeters>();
  virtual void passed_over(const SkippedCounts& /*rows*/) {}
  /// Something was done differently from what was asked for; a sentence.
  virtual void warning(const std::string& /*sentence*/) {}
  virtual void scored(const ScoreReport& /*report*/, size_t /*completions*/) {}
  /// Everything is known, nothing is learned yet.
  virtual void ready(const Experience& /*experience*/) {}
  /// Sequence s of a packed batch is rollout minibatch[s].
  virtual void decided(const DecidedTokens& /*tokens*/, std::span<const int64_t> /*minibatch*/) {}
  /// The minibatch's gradients lie in the parameters.
  virtual void before_update(std::span<const int64_t> /*minibatch*/) {}
  /// A gradient was not finite; the state has counted it. It may have overflowed by a loss scale, which is halved then.
  virtual void skipped_update(bool /*overflowed*/) {}
};

}  // namespace keel
