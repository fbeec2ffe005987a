#pragma once

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel::cuda {

/// Two parts of an attention put together by the logs of their softmaxes' sums. Row i of `more` [count, heads, width]
/// and `more_log_sum` [heads, count] is part of row rows[i] (`first` + i where `rows` is null) of `out` [all, heads,
/// width] and `log_sum` [heads, all], which become the whole. All pointers are the device's; returns a CUDA error code,
/// 0 for none.
int merge_attention(void* out, float* log_sum, int64_t all, int64_t first, const int64_t* rows, const void* more,
                    const float* more_log_sum, FloatType type, int64_t count, int64_t heads, int64_t width,
                    void* stream);

}  // namespace keel::cuda
