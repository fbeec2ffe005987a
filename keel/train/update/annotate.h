#pragma once

#include <span>

#include "keel/core/requirements.h"
#include "keel/core/tensor/rollout.h"
#include "keel/model/network/causal_lm.h"
#include "keel/model/network/critic.h"

namespace keel {

/// Adds to the rollouts what the method requires and only the trainer knows: the log-probabilities that the trainer's
/// own forward pass gives the tokens at the weights that sampled them, `behavior` (the recomputed policy), those of the
/// reference policy, and the critic's value of the state before each token; `model` is the policy as it is now, whose
/// body a critic may share. `reference` and `critic` may be null when they are not required.
void annotate(std::span<Rollout> rollouts, const CausalLm& model, const CausalLm& behavior, const CausalLm* reference,
              const Critic* critic, const Requirements& requirements, double temperature, int64_t tokens_per_batch);

}  // namespace keel
