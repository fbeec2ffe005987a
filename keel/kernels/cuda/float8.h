#pragma once

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel::cuda {

/// Rounds x [rows, width] to the nearest values of the format, saturating. `scaled`: with one scale per row, at least
/// the smallest normal float, which maps the row's largest magnitude to the format's maximum. Device pointers, on
/// `stream` (a cudaStream_t). Returns a CUDA error code or 0.
int round_to_float8(const void* x, FloatType type, Float8 format, bool scaled, int64_t rows, int64_t width, void* y,
                    void* stream);

}  // namespace keel::cuda
