#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "keel/core/requirements.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

/// The inputs of a policy loss: one entry per token, with the sequences concatenated. The float tensors share one type.
/// The Requirements of a region name the fields after `advantages` that it needs.
struct LossInputs {
  Tensor logp;                        // [N] log pi of the sampled token under the policy being trained
  Tensor behavior_logp;               // [N] log mu, recorded by the sampler
  Tensor advantages;                  // [N]
  Tensor mask = {};                   // [N] bool; undefined: every token is valid
  std::vector<int64_t> lengths = {};  // [S] including masked tokens; empty: one sequence
  std::vector<int64_t> groups = {};   // [S] prompt of each sequence; empty: the same for all
  Tensor old_logp = {};               // [N] log-prob recomputed by the trainer at the sampling weights
  // [N] log(1 - p) of logp, behavior_logp and old_logp, exact even if log p rounds to 0. Undefined: from log p.
  Tensor other_logp = {}, behavior_other_logp = {}, old_other_logp = {};
  Tensor topk_behavior_logp = {};  // [N, K] log mu of the sampler's K most likely tokens
  Tensor topk_logp = {};           // [N, K] log pi of the same tokens
  Tensor sampled_in_topk = {};     // [N] bool
  Tensor divergence = {};          // [N] exact divergence over the vocabulary
  Tensor choices = {};             // [N] int: number of tokens that truncated sampling kept; undefined: all
};

/// The tensor members of LossInputs; each has one row per token.
inline constexpr auto kLossTensors = std::to_array<Tensor LossInputs::*>(
    {&LossInputs::logp, &LossInputs::behavior_logp, &LossInputs::advantages, &LossInputs::mask, &LossInputs::old_logp,
     &LossInputs::other_logp, &LossInputs::behavior_other_logp, &LossInputs::old_other_logp,
     &LossInputs::topk_behavior_logp, &LossInputs::topk_logp, &LossInputs::sampled_in_topk, &LossInputs::divergence,
     &LossInputs::choices});
static_assert(sizeof(LossInputs) == kLossTensors.size() * sizeof(Tensor) + 2 * sizeof(std::vector<int64_t>),
              "kLossTensors must list every tensor of LossInputs");

/// The result for each token, without autograd graph. Masked-out tokens count as kept and inside, with coefficient and
/// divergence 0.
struct TokenDecision {
  Tensor coefficient;   // [N] g: the policy gradient is the sum of g grad log pi, before aggregation
  Tensor keep;          // [N] bool: false if the trust-region mask blocks the token
  Tensor divergence;    // [N] divergence that the region measured; may be infinite
  Tensor threshold;     // [N] threshold of that divergence
  Tensor outside = {};  // [N] bool: outside the region, blocked or not; default: not keep
  Tensor clamped = {};  // [] number of log-ratios (per token or sequence) that the clamp before exp changed
};

/// The value of a limit that is switched off.
inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

}  // namespace keel
