#pragma once

#include <cstdint>
#include <vector>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Samples initial float32 weights from a normal distribution with this standard deviation, on `device`. They are a
/// function of the seed and the index of the parameter (keel/kernels/initial_weights.h).
Tensor initial_weights(const std::vector<int64_t>& shape, double deviation, uint64_t seed, uint64_t parameter,
                       at::Device device);

}  // namespace keel
