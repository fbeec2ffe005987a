#pragma once

#include <cstdint>

#include "keel/core/tensor/tensor.h"
#include "keel/kernels/activation.h"
#include "keel/ops/cuda_layers.h"

// The operations between the matrix products of a block, differentiable. On a CPU in float32 and on a GPU each is one
// pass over memory by our own kernels; elsewhere it is made of the tensor library's operators.

namespace keel {

/// x / sqrt(mean(x^2) + eps) * weight over the last dimension; x [N, H], weight [H] of the same type or float32.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);

/// The norm of x + added, and that sum.
NormedSum add_and_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps);

/// x W^T + b of rows [N, in] and a weight [out, in]; b may be undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

/// activation(gate) * up.
Tensor gated(Activation activation, const Tensor& gate, const Tensor& up);

/// The same of one product with the weights [2 out, in] of both, the gate's first.
Tensor gated_linear(Activation activation, const Tensor& x, const Tensor& weight, const Tensor& bias);

/// The angles of positions [N] int64 at frequencies [D / 2], their cos and sin times the factor.
RotaryAngles rotary_angles(const Tensor& positions, const Tensor& frequencies, double factor);

/// Rotary position embedding in Hugging Face's layout: the two halves of each head are turned against each other.
/// x [N, heads, D], cos and sin [N, D / 2] float32.
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin);

/// The heads of a layer's rows: queries [N, heads, D], keys and values [N, kv_heads, D], and the angles that queries
/// and keys are still to be turned by; undefined: they are.
struct Heads {
  Tensor query, key, value;
  RotaryAngles angles = {};

  Heads rotated() const;
};

/// What one layer's attention does with a query's score of a key; which tokens follow one another is another matter.
struct AttentionConfig {
  double scale = 1;    // scores are multiplied by it
  double softcap = 0;  // then become cap tanh(score / cap); 0: they do not
  int64_t window = 0;  // a token sees this many, itself included; 0: all before it
};

}  // namespace keel
