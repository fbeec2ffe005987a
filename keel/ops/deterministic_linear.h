#pragma once

#include "keel/core/tensor/tensor.h"

// Products in which every number is added up in one order, that of the inputs, whatever other rows and outputs there
// are: the sampler's few rows get the trainer's bits. For float32 on a CPU and narrow types on a GPU.

namespace keel {

/// x W^T of rows [N, in] and a weight [out, in], differentiable.
Tensor deterministic_linear(const Tensor& x, const Tensor& weight);

/// The same in float32, not differentiable.
Tensor deterministic_linear_to_float32(const Tensor& x, const Tensor& weight);

/// Whether there is such an order.
bool has_deterministic_gemm(at::Device device, at::ScalarType type);

}  // namespace keel
