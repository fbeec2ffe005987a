#pragma once

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel::cuda {

/// Merges two parts of an attention by their log-sum-exps. Row i of `more` [count, heads, width] and `more_log_sum`
/// [heads, count] belongs to row rows[i] (`first` + i where `rows` is null) of `out` [all, heads, width] and `log_sum`
/// [heads, all], which become the whole. Device pointers. Returns a CUDA error code, 0 for none.
int merge_attention(void* out, float* log_sum, int64_t all, int64_t first, const int64_t* rows, const void* more,
                    const float* more_log_sum, FloatType type, int64_t count, int64_t heads, int64_t width,
                    void* stream);

}  // namespace keel::cuda
