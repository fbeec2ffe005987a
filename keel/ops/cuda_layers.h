#pragma once

#include "keel/core/tensor/tensor.h"
#include "keel/kernels/float_type.h"

namespace keel {

/// x + added (the residual stream) and its RMS norm.
struct NormedSum {
  Tensor sum, normed;
};

/// cos and sin of the rotary angles of each position, [N, D / 2] float32 each.
struct RotaryAngles {
  Tensor cos, sin;
};

/// The kernels' enum for e4m3 or e5m2.
inline Float8 float8_format(at::ScalarType type) { return type == at::kFloat8_e4m3fn ? Float8::kE4m3 : Float8::kE5m2; }

/// A LoRA adapter of a linear layer, which adds (x A^T) B^T; or none. A [rank, in], B [out, rank].
struct AdapterMatrices {
  Tensor a, b;
};

// The operations of layer_ops.h as fused CUDA kernels, differentiable. All arguments have one dtype, except angles and
// frequencies, which are float32.
namespace gpu {

/// The rank to which zeros pad adapters of weights with these options for skinny_linear().
int64_t padded_rank(int64_t rank, const at::TensorOptions& options);

Tensor norm(const Tensor& x, const Tensor& weight, double eps);
NormedSum add_and_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps);
Tensor swiglu(const Tensor& gate, const Tensor& up);
RotaryAngles rotary_angles(const Tensor& positions, const Tensor& frequencies, double factor);
/// Applies the rotary embedding. Not differentiable: the gradient is the rotation with `direction` -1.
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, float direction);

/// x W^T + b, plus the adapter's product, by the skinny GEMM kernel, for the small batches of decoding. `swiglu`: the
/// weight is that of gate and up, and SwiGLU is applied. Returns an undefined tensor if the kernel does not support the
/// case.
Tensor skinny_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const AdapterMatrices& adapter,
                     bool swiglu);

/// Rounds x [..., n] to the nearest e4m3 or e5m2, saturating, and returns the dtype of x. `scaled`: with one scale per
/// row, which maps the row's largest magnitude to the type's maximum.
Tensor round_to_float8(const Tensor& x, at::ScalarType type, bool scaled);

}  // namespace gpu
}  // namespace keel
