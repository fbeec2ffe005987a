#pragma once

#include <cstdint>

#include "keel/kernels/float8_format.h"
#include "keel/kernels/float_type.h"

namespace keel::cuda {

/// y: the numbers of x [rows, width], of one type, as the nearest ones that the format can hold, its largest for what
/// is beyond; with `scaled` in multiples of a scale for each row, with which its largest number becomes the format's
/// largest, and which is at least the smallest normal float. All in device memory, on `stream` (a cudaStream_t).
/// Returns a CUDA error code, 0 for none.
int round_to_float8(const void* x, FloatType type, Float8 format, bool scaled, int64_t rows, int64_t width, void* y,
                    void* stream);

}  // namespace keel::cuda
