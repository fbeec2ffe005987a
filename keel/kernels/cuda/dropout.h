#pragma once

#include <cstdint>

#include "keel/kernels/dropout.h"
#include "keel/kernels/float_type.h"

namespace keel::cuda {

/// y = x times the factors of each row's token; x, y [rows, width] of one type, sequences and positions [rows], all in
/// device memory, on `stream` (a cudaStream_t). Returns a CUDA error code, 0 for none.
int drop_out(const void* x, FloatType type, const int64_t* sequences, const int64_t* positions, int64_t rows,
             int64_t width, const DropoutNoise& noise, void* y, void* stream);

}  // namespace keel::cuda
