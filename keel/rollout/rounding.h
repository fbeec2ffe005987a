#pragma once

#include "keel/core/tensor/tensor.h"

// Simulated low precision. Each function rounds to the nearest values of a format, ties to even. The result has the dtype
// of x, so that any machine can compute with it. NaN stays NaN.

namespace keel {

/// Rounds to bfloat16, float16, e4m3 or e5m2 without a scale. Overflow saturates in the 8-bit types and becomes
/// infinite in the others.
Tensor round_to_type(const Tensor& x, at::ScalarType type);

/// Rounds to e4m3 or e5m2 with one scale per row [..., n], which maps the row's largest magnitude to the type's
/// maximum.
Tensor round_rows_to_float8(const Tensor& x, at::ScalarType type);

/// Rounds to symmetric signed integers with one scale per row; 4 bits give -7 to 7.
Tensor round_to_integers(const Tensor& x, int bits);

/// Rounds x [rows, n] to NVFP4: e2m1 in blocks of 16 along a row, one e4m3 scale per block, one float32 scale per
/// tensor.
Tensor round_to_nvfp4(const Tensor& x);

}  // namespace keel
