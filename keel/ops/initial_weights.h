#pragma once

#include <cstdint>
#include <vector>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// A parameter's initial weights, float32: normal with this deviation, a function of the seed and the parameter's
/// number (keel/kernels/initial_weights.h). Generated on `device`.
Tensor initial_weights(const std::vector<int64_t>& shape, double deviation, uint64_t seed, uint64_t parameter,
                       at::Device device);

}  // namespace keel
