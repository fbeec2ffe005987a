#pragma once

#include "keel/core/tensor/tensor.h"

// GEMMs whose order of summation depends neither on the other rows nor on the outputs, so that the sampler's small
// batches get the same bits as the trainer's. For float32 on a CPU, and for bf16 and fp16 on a GPU.

namespace keel {

/// x W^T for x [N, in] and a weight [out, in]; differentiable.
Tensor deterministic_linear(const Tensor& x, const Tensor& weight);

/// x W^T with a float32 result; not differentiable.
Tensor deterministic_linear_to_float32(const Tensor& x, const Tensor& weight);

/// Returns whether the device has deterministic GEMMs for this dtype.
bool has_deterministic_gemm(at::Device device, at::ScalarType type);

}  // namespace keel
