#pragma once

#include <span>
#include <vector>

#include "keel/core/requirements.h"
#include "keel/core/tensor/rollout.h"
#include "keel/objective/regions/loss_inputs.h"
#include "keel/ops/lm_head.h"
#include "keel/train/update/packing.h"

namespace keel {

/// A step's rollouts with advantages: trained token t of rollouts[i] has advantages[i][t].
struct ScoredRollouts {
  std::span<const Rollout> rollouts;
  std::span<const std::vector<float>> advantages;
  Tensor behavior_head = {};  // [V, H] LM head of the sampler, if its hidden states were recorded
  std::span<const std::vector<float>> returns = {};  // targets of the critic's values, if any
};

/// The rollouts of a minibatch, as packing and the objective need them. PackedBatch::sequences indexes these vectors.
struct SelectedRollouts {
  std::vector<const Rollout*> rollouts;
  std::vector<TrainingSequence> sequences;
  std::vector<std::span<const float>> advantages, returns;
  Tensor behavior_head;

  std::vector<int64_t> lengths() const;
  std::vector<int64_t> prompts() const;
};

/// Converts a rollout to a sequence for packing.
TrainingSequence training_sequence(const Rollout& rollout, int64_t completion_id = 0);

SelectedRollouts select_rollouts(const ScoredRollouts& scored, std::span<const int64_t> indices);

/// A column of a rollout with one value per trained token, or K values.
using RolloutColumn = std::vector<float> TokenColumns::*;

/// The column's values for the targets of the batch, float32: [M], or [M * K] for a top-K column.
Tensor gather_column(const PackedBatch& batch, const SelectedRollouts& selected, RolloutColumn column);

/// The sets of kept tokens of the batch's targets; undefined if sampling was not truncated.
KeptRows gather_kept_tokens(const PackedBatch& batch, std::span<const Rollout* const> rollouts);

/// The inputs of the loss for a packed batch that do not depend on the current policy.
struct TokenInputs {
  LossInputs loss_inputs;  // logp and the other outputs of the LM head are undefined
  BehaviorRows behavior;   // the sampler's distributions, to compare with
  Tensor reference_logp;   // [M], when required
};

TokenInputs gather_token_inputs(const PackedBatch& batch, const SelectedRollouts& selected, const Requirements& needs);

/// Joins the inputs of the targets [begin, begin + n) with the LM head's statistics of them.
LossInputs add_statistics(const TokenInputs& inputs, const TokenStats& stats, const Requirements& needs, int64_t begin);

}  // namespace keel
