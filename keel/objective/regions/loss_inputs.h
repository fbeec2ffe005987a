#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "keel/core/requirements.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

/// What a trust region judges, one entry per token, flat: sequences follow one another. The float tensors share one
/// type. A region's Requirements say which of the fields after `advantages` it needs.
struct LossInputs {
  Tensor logp;                        // [N] log pi of the sampled token under the policy being trained
  Tensor behavior_logp;               // [N] log mu, as the sampler recorded it
  Tensor advantages;                  // [N]
  Tensor mask = {};                   // [N] bool; undefined: every token is valid
  std::vector<int64_t> lengths = {};  // [S] tokens of each sequence, masked ones too; empty: all are one sequence
  std::vector<int64_t> groups = {};   // [S] the prompt that each sequence answers; empty: all answer one
  Tensor old_logp = {};               // [N] the trainer's own log-prob at the sampling weights
  // [N] log(1 - p) of these three, from the logits: exact where log p rounds to 0. Undefined: made from the log-probs.
  Tensor other_logp = {}, behavior_other_logp = {}, old_other_logp = {};
  Tensor topk_behavior_logp = {};  // [N, K] log mu of the sampler's K most likely tokens
  Tensor topk_logp = {};           // [N, K] log pi of the same tokens
  Tensor sampled_in_topk = {};     // [N] bool
  Tensor divergence = {};          // [N] the exact divergence, computed where both distributions are known
};

/// The tensors of a LossInputs; each has one row per token.
inline constexpr auto kTokenColumns = std::to_array<Tensor LossInputs::*>(
    {&LossInputs::logp, &LossInputs::behavior_logp, &LossInputs::advantages, &LossInputs::mask, &LossInputs::old_logp,
     &LossInputs::other_logp, &LossInputs::behavior_other_logp, &LossInputs::old_other_logp,
     &LossInputs::topk_behavior_logp, &LossInputs::topk_logp, &LossInputs::sampled_in_topk, &LossInputs::divergence});
static_assert(sizeof(LossInputs) == kTokenColumns.size() * sizeof(Tensor) + 2 * sizeof(std::vector<int64_t>),
              "kTokenColumns must list every tensor of LossInputs");

/// The decision on each token, without gradients. Masked tokens are kept and inside, with coefficient and divergence 0.
struct TokenDecision {
  Tensor coefficient;   // [N] g: the ascent direction is the sum of g grad log pi, before aggregation
  Tensor keep;          // [N] bool: false where the hard mask blocks the token
  Tensor divergence;    // [N] what the region measured; may be infinite
  Tensor threshold;     // [N] what the divergence was held against
  Tensor outside = {};  // [N] bool: beyond the region, blocked or not; for a hard mask, what it blocks
  Tensor clamped = {};  // [] log-ratios that the clamp before exp changed, each once: a token's, or a whole sequence's
};

/// "No limit", or "switched off".
inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

}  // namespace keel
