#pragma once

#include <vector>

#include "keel/model/network/transformer.h"
#include "keel/ops/packed_attention.h"

namespace keel {

/// Returns whether training and prefill use flash attention.
bool uses_flash_attention(const Transformer& model);

/// The hidden states [N, H] of packed tokens [N] at positions [N], as in training.
Tensor packed_hidden_states(const Transformer& model, const Tensor& tokens, const Tensor& positions,
                            const std::vector<Segment>& segments, const Dropout& dropout = {});

}  // namespace keel
