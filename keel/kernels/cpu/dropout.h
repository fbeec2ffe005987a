#pragma once

#include <cstdint>

#include "keel/kernels/dropout.h"

namespace keel::cpu {

/// y = x times the factors of each row's token; x, y [rows, width], sequences and positions [rows].
void drop_out(const float* x, const int64_t* sequences, const int64_t* positions, int64_t rows, int64_t width,
              const DropoutNoise& noise, float* y);

}  // namespace keel::cpu
