#pragma once

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel::cuda {

/// Merges a second part of an attention into `out` [total, heads, width] and `log_sum` [heads, total] by the
/// log-sum-exps. Row i of `added` [count, heads, width] and `added_log_sum` [heads, count] belongs to row rows[i], or
/// `first` + i if `rows` is null. Device pointers. Returns a CUDA error code or 0.
int merge_attention(void* out, float* log_sum, int64_t total, int64_t first, const int64_t* rows, const void* added,
                    const float* added_log_sum, FloatType type, int64_t count, int64_t heads, int64_t width,
                    void* stream);

}  // namespace keel::cuda
