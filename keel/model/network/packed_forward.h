#pragma once

#include <vector>

#include "keel/model/network/transformer.h"
#include "keel/ops/packed_attention.h"

namespace keel {

/// Whether the network's layers are trained with flash attention, and prompts sampled from with it.
bool uses_flash_attention(const Transformer& model);

/// Hidden states [N, H] of packed tokens [N] at their positions [N], the way training computes them.
Tensor packed_hidden_states(const Transformer& model, const Tensor& tokens, const Tensor& positions,
                            const std::vector<Segment>& segments, const Dropout& dropout = {});

}  // namespace keel
