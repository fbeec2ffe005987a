#pragma once

#include "keel/core/tensor/tensor.h"
#include "keel/kernels/float8_format.h"

namespace keel {

/// The kernels' name for e4m3 or e5m2.
inline Float8 float8_format(at::ScalarType type) { return type == at::kFloat8_e4m3fn ? Float8::kE4m3 : Float8::kE5m2; }

namespace gpu {

/// The numbers of x [..., n] on a GPU as the nearest e4m3 or e5m2, the largest for what is beyond; with `scaled` in
/// multiples of a scale for each row, with which its largest number becomes the type's. The result is of the type that
/// came. One kernel: who samples in 8 bits rounds in front of every product.
Tensor rounded_to_float8(const Tensor& x, at::ScalarType type, bool scaled);

}  // namespace gpu
}  // namespace keel
