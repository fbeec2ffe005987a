#pragma once

#include <functional>
#include <span>

#include "keel/core/records.h"
#include "keel/model/causal_lm.h"
#include "keel/model/lm_head.h"
#include "keel/objective/methods.h"
#include "keel/train/packing.h"

namespace keel {

/// A step's rollouts and what they are worth; rollouts[i] has advantages[i].
struct ScoredRollouts {
  std::span<const Prompt> prompts;
  std::span<const Rollout> rollouts;
  std::span<const double> advantages;
  Tensor behavior_head = {};  // [V, H] the sampler's LM head, when its hidden states were recorded
};

/// Told what was decided about the targets [begin, begin + n) of a packed batch, for metrics and records.
using TokenObserver = std::function<void(const PackedBatch& batch, int64_t begin, const TokenStats& stats,
                                         const TokenPolicy& policy, const TokenDecision& decision)>;

/// Adds the gradients of one update to the parameters': packs the rollouts named by `indices`, runs them through the
/// network, and lets the objective turn each token's statistics into its coefficient. The loss is divided by the counts
/// of the whole minibatch, so `tokens_per_batch` bounds memory and changes no gradient.
void accumulate_policy_gradients(const CausalLm& model, const Objective& objective, double temperature,
                                 int64_t tokens_per_batch, const ScoredRollouts& scored,
                                 std::span<const int64_t> indices, const TokenObserver& observe);

}  // namespace keel
