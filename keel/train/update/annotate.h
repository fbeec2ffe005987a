#pragma once

#include <span>

#include "keel/core/requirements.h"
#include "keel/core/tensor/rollout.h"
#include "keel/model/network/causal_lm.h"
#include "keel/model/network/critic.h"

namespace keel {

/// Adds the per-token columns that the method requires: log-probs recomputed by the trainer with the sampler's weights
/// (`behavior`), log-probs of the reference, and the critic's values. `model` is the current policy, whose backbone the
/// critic may share. `reference` and `critic` may be null if they are not required.
void annotate(std::span<Rollout> rollouts, const CausalLm& model, const CausalLm& behavior, const CausalLm* reference,
              const Critic* critic, const Requirements& requirements, double temperature, int64_t tokens_per_batch);

}  // namespace keel
