#pragma once

#include <cstdint>
#include <span>

#include "keel/core/tensor/rollout.h"
#include "keel/model/network/causal_lm.h"

namespace keel {

/// Why the probabilities of sampled tokens differ between the policy pi and the sampler mu. With old, the trainer's
/// probabilities at the weights that sampled:
struct Drift {
  double mismatch_mean = 0, mismatch_max = 0;  // |old - mu|: sampler and trainer differ at equal weights
  double mean = 0, max = 0;                    // |pi - old|: the policy was updated since the batch was sampled
};

/// Measures the first rollouts that fit into a micro-batch, in two forward passes. `sampled_by` has the weights that
/// sampled them.
Drift measure_drift(std::span<const Rollout> rollouts, const CausalLm& policy, const CausalLm& sampled_by,
                    double temperature, int64_t tokens_per_batch);

}  // namespace keel
