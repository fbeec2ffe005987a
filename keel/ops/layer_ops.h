#pragma once

#include <cstdint>

#include "keel/core/tensor/tensor.h"
#include "keel/kernels/activation.h"
#include "keel/ops/cuda_layers.h"

// Differentiable operations between the GEMMs of a transformer layer. On a GPU, and for float32 on a CPU, each is one
// fused kernel. Other dtypes use PyTorch operators.

namespace keel {

/// x / sqrt(mean(x^2) + eps) * weight over the last dimension; x [N, H], weight [H] of the same type or float32.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);

/// x + added, and its RMS norm.
NormedSum add_and_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps);

/// x W^T + b, plus the adapter's product, of rows [N, in] and a weight [out, in]; b may be undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const AdapterMatrices& adapter = {});

/// activation(gate) * up.
Tensor gated(Activation activation, const Tensor& gate, const Tensor& up);

/// gated() of one GEMM with the joined weights [2 out, in]; the gate comes first.
Tensor gated_linear(Activation activation, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const AdapterMatrices& adapter = {});

/// cos and sin of position times frequency, times `factor`. positions [N] int64, frequencies [D / 2].
RotaryAngles rotary_angles(const Tensor& positions, const Tensor& frequencies, double factor);

/// Rotary position embedding in the Hugging Face layout, which rotates the two halves of each head.
/// x [N, heads, D], cos and sin [N, D / 2] float32.
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin);

/// Queries [N, heads, D], keys and values [N, kv_heads, D] of a layer. `angles` are undefined if queries and keys are
/// already rotated.
struct Heads {
  Tensor query, key, value;
  RotaryAngles angles = {};

  Heads rotated() const;
};

/// Attention parameters of one layer.
struct AttentionConfig {
  double scale = 1;    // factor of the scores
  double softcap = 0;  // cap tanh(score / cap) of the scaled scores; 0: none
  int64_t window = 0;  // attended tokens, including the token itself; 0: all
};

}  // namespace keel
