#pragma once

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel::cuda {

/// Rounds x [rows, width] to the nearest numbers of the format, its largest for what is beyond. With `scaled`: in
/// multiples of a scale for each row, at least the smallest normal float, that maps the row's largest number to the
/// format's. Device pointers, on `stream` (a cudaStream_t). Returns a CUDA error code, 0 for none.
int round_to_float8(const void* x, FloatType type, Float8 format, bool scaled, int64_t rows, int64_t width, void* y,
                    void* stream);

}  // namespace keel::cuda
