#pragma once

#include "keel/ops/layer_results.h"

// The operations of layer_ops.h by our own kernels on a GPU, differentiable: one pass over memory each, and one for the
// gradients. Everything is of one type, angles and frequencies are float32.

namespace keel::gpu {

Tensor norm(const Tensor& x, const Tensor& weight, double eps);
NormedSum add_and_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps);
Tensor swiglu(const Tensor& gate, const Tensor& up);
Angles angles_at(const Tensor& positions, const Tensor& frequencies, double factor);
/// Without gradients of its own: those are the same in the other direction, -1.
Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, float direction);

/// The product where few rows are sampled, and cuBLAS waits more than it multiplies, with SwiGLU after it where the
/// weight is that of gate and up; undefined elsewhere.
Tensor linear_of_few_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, bool swiglu);

}  // namespace keel::gpu
