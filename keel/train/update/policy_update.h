#pragma once

#include <functional>
#include <span>

#include "keel/model/network/causal_lm.h"
#include "keel/objective/methods.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/policy_tokens.h"

namespace keel {

/// What was decided about the targets [begin, begin + n) of a packed batch. The decision's coefficient is the whole
/// weight of grad log pi before aggregation: the method's and the pull to the reference.
struct TokenUpdate {
  const PackedBatch& batch;
  int64_t begin;
  const TokenStats& stats;
  const LossInputs& policy;
  const TokenDecision& decision;
  Tensor weights;            // [n] the aggregation's, which multiply the coefficients
  Tensor reference_kl = {};  // [n] the estimate of each token, where there is a reference
};

/// Told about all tokens of an update, for metrics and records.
using TokenObserver = std::function<void(const TokenUpdate& tokens)>;

/// Adds the gradients of one update to the weights' sinks: packs the rollouts named by `indices`, runs them through the
/// network, and lets the objective turn each token's statistics into its coefficient. The loss is divided by the counts
/// of the whole minibatch, and a method whose test needs the whole update gets its statistics first (one more forward),
/// so `tokens_per_batch` bounds memory and changes no gradient.
void accumulate_policy_gradients(const CausalLm& model, const Objective& objective, const UpdateOptions& pass,
                                 int64_t tokens_per_batch, const ScoredRollouts& scored,
                                 std::span<const int64_t> indices, const TokenObserver& observe);

}  // namespace keel
