#pragma once

#include "keel/core/tensor/tensor.h"

// Numbers of few bits. Each function gives back a tensor of the type that came, whose numbers are the nearest ones that
// the format can hold, of two equally near ones that with an even last digit: what a machine of that precision would
// multiply with, for machines of any. NaN stays NaN.

namespace keel {

/// To bfloat16, float16, e4m3 or e5m2 as they are, without a scale. What is beyond the largest number of an 8-bit type
/// becomes that number; beyond the others' it becomes infinite.
Tensor round_to_type(const Tensor& x, at::ScalarType type);

/// To e4m3 or e5m2, with one scale for each row [..., n]: its largest number becomes the largest of the type.
Tensor round_rows_to_float8(const Tensor& x, at::ScalarType type);

/// To whole multiples of a scale for each row, as many to either side of 0 as `bits` allow: 7 with 4 bits.
Tensor round_to_integers(const Tensor& x, int bits);

/// To NVFP4: e2m1 in blocks of 16 along a row of x [rows, n], with an e4m3 scale for each block and one float32 scale
/// for all.
Tensor round_to_nvfp4(const Tensor& x);

}  // namespace keel
