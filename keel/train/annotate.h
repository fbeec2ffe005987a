#pragma once

#include <span>

#include "keel/core/records.h"
#include "keel/core/requirements.h"
#include "keel/model/causal_lm.h"

namespace keel {

/// Adds to the rollouts what the method requires and only the trainer knows: the log-probabilities that the trainer's
/// own weights give the tokens before any update (the recomputed policy), and those of the reference policy.
/// `reference` may be null when it is not required.
void annotate(std::span<Rollout> rollouts, std::span<const Prompt> prompts, const CausalLm& model,
              const CausalLm* reference, const Requirements& requirements, double temperature,
              int64_t tokens_per_batch);

}  // namespace keel
