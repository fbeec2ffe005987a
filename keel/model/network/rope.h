#pragma once

#include "keel/core/tensor/tensor.h"
#include "keel/model/network/model_config.h"

namespace keel {

/// How fast each pair of a head's dimensions turns with the position: [D / 2] float32.
Tensor inverse_frequencies(const Rope& rope, int64_t head_dim);

}  // namespace keel
