#pragma once

#include <span>
#include <vector>

#include "keel/core/requirements.h"
#include "keel/core/tensor/rollout.h"
#include "keel/objective/regions/loss_inputs.h"
#include "keel/ops/lm_head.h"
#include "keel/train/update/packing.h"

namespace keel {

/// A step's rollouts and what their tokens are worth: trained token t of rollouts[i] has advantages[i][t].
struct ScoredRollouts {
  std::span<const Rollout> rollouts;
  std::span<const std::vector<float>> advantages;
  Tensor behavior_head = {};                         // [V, H] the sampler's, when its hidden states were recorded
  std::span<const std::vector<float>> returns = {};  // for a critic alone
};

/// Some of them, as packing and the objective want them; batch.sequences of their packing index these vectors.
struct SelectedRollouts {
  std::vector<const Rollout*> rollouts;
  std::vector<TrainingSequence> sequences;
  std::vector<std::span<const float>> advantages, returns;
  Tensor behavior_head;

  std::vector<int64_t> lengths() const;
};

/// The rollout as a sequence to train on, whose completion has this key.
TrainingSequence training_sequence(const Rollout& rollout, int64_t key = 0);

SelectedRollouts select_rollouts(const ScoredRollouts& scored, std::span<const int64_t> indices);

/// A column with one number for each trained token.
using TokenColumn = std::vector<float> TokenColumns::*;

/// One recorded number per target of the batch: [M] float32.
Tensor recorded(const PackedBatch& batch, const SelectedRollouts& chosen, TokenColumn column);

/// What is known about a packed batch's targets before the network runs, as far as the method requires it.
struct TokenInputs {
  LossInputs policy;      // without logp and what else the network says
  BehaviorRows behavior;  // what the head is asked to compare with
  Tensor reference_logp;  // [M], when required
};

TokenInputs gather_token_inputs(const PackedBatch& batch, const SelectedRollouts& chosen, const Requirements& needs);

/// The targets [begin, begin + n) of what is known, with what the head says of them.
LossInputs with_statistics(const TokenInputs& known, const TokenStats& stats, const Requirements& needs, int64_t begin);

}  // namespace keel
