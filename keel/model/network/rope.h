#pragma once

#include "keel/core/tensor/tensor.h"
#include "keel/model/network/model_config.h"

namespace keel {

/// The RoPE frequency of each pair of dimensions of a head: [D / 2] float32.
Tensor inverse_frequencies(const Rope& rope, int64_t head_dim);

}  // namespace keel
