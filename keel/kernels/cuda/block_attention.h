#pragma once

#include "keel/kernels/block_rows.h"

namespace keel::cuda {

/// As cpu::store_rows; all pointers are the device's, and numbers are of the layer's type. Returns a CUDA error code, 0
/// for none.
int store_rows(const BlockLayer& layer, const int32_t* tables, const BlockRow* rows, int64_t count, const void* key,
               const void* value, void* stream);

/// As cpu::attend_rows, without room for scores; a head has at most 256 dimensions. Sums are in float32.
int attend_rows(const BlockLayer& layer, const BlockRule& rule, const int32_t* tables, const BlockRow* rows,
                int64_t count, const void* query, int64_t heads, void* out, void* stream);

}  // namespace keel::cuda
