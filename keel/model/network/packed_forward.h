#pragma once

#include <vector>

#include "keel/model/network/causal_lm.h"
#include "keel/ops/packed_attention.h"

namespace keel {

/// Hidden states [N, H] of packed tokens [N] at their positions [N], the way training computes them.
Tensor packed_hidden_states(const CausalLm& model, const Tensor& tokens, const Tensor& positions,
                            const std::vector<Segment>& segments);

}  // namespace keel
