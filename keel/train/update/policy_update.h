#pragma once

#include <functional>
#include <span>

#include "keel/model/network/causal_lm.h"
#include "keel/objective/methods.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/policy_tokens.h"

namespace keel {

/// The loss terms of the targets [begin, begin + n) of a packed batch. `decision.coefficient` multiplies grad log pi
/// before aggregation and includes the reference-KL term.
struct TokenUpdate {
  const PackedBatch& batch;
  int64_t begin;
  const TokenStats& stats;
  const LossInputs& loss_inputs;
  const TokenDecision& decision;
  Tensor weights;            // [n] aggregation weights, which multiply the coefficients
  Tensor reference_kl = {};  // [n] KL estimate of each token, if there is a KL term
};

/// Callback for each chunk of tokens of an update, for metrics and records.
using TokenObserver = std::function<void(const TokenUpdate& tokens)>;

/// Accumulates the gradients of one update in the weights' sinks: packs the rollouts with these indices, runs the
/// network, and computes each token's coefficient with the objective. The loss is normalised by the counts of the whole
/// minibatch. A method with batch scope first gets the statistics of the whole update from an extra forward pass. So
/// `tokens_per_batch` limits memory and does not change the gradients.
void accumulate_policy_gradients(const CausalLm& model, const Objective& objective, const UpdateOptions& options,
                                 int64_t tokens_per_batch, const ScoredRollouts& scored,
                                 std::span<const int64_t> indices, const TokenObserver& observe);

}  // namespace keel
