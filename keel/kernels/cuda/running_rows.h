#pragma once

#include "keel/kernels/running_rows.h"

namespace keel::cuda {

/// advance_row for every row; all pointers are the device's. Returns a CUDA error code, 0 for none.
int advance_rows(const RunningRowPointers& running, const DrawnRowPointers& drawn, void* stream);

}  // namespace keel::cuda
