#pragma once

#include "keel/core/tensor/tensor.h"
#include "keel/kernels/float_type.h"

namespace keel {

/// sum = x + added and its norm, which every layer goes on with.
struct NormedSum {
  Tensor sum, normed;
};

/// cos and sin of every position's angles, [N, D / 2] each, float32.
struct RotaryAngles {
  Tensor cos, sin;
};

/// The kernels' name for e4m3 or e5m2.
inline Float8 float8_format(at::ScalarType type) { return type == at::kFloat8_e4m3fn ? Float8::kE4m3 : Float8::kE5m2; }

// The operations of layer_ops.h by our own kernels on a GPU, differentiable: one pass over memory each, and one for the
// gradients. Everything is of one type, angles and frequencies are float32.
namespace gpu {

Tensor norm(const Tensor& x, const Tensor& weight, double eps);
NormedSum add_and_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps);
Tensor swiglu(const Tensor& gate, const Tensor& up);
RotaryAngles rotary_angles(const Tensor& positions, const Tensor& frequencies, double factor);
/// Without gradients of its own: those are the same in the other direction, -1.
Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, float direction);

/// The product where few rows are sampled, and cuBLAS waits more than it multiplies, with SwiGLU after it where the
/// weight is that of gate and up; undefined elsewhere.
Tensor skinny_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, bool swiglu);

/// The numbers of x [..., n] on a GPU as the nearest e4m3 or e5m2, the largest for what is beyond; with `scaled` in
/// multiples of a scale for each row, with which its largest number becomes the type's. The result is of the type that
/// came. One kernel: who samples in 8 bits rounds in front of every product.
Tensor round_to_float8(const Tensor& x, at::ScalarType type, bool scaled);

}  // namespace gpu
}  // namespace keel
