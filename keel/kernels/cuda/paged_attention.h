#pragma once

#include "keel/kernels/paged_row.h"

namespace keel::cuda {

/// Queries [rows, heads, width], keys and values [rows, kv_heads, width] of the layer's type; strides in numbers.
struct HeadRows {
  const void *query, *key, *value;
  int64_t query_stride, key_stride, value_stride;
  int64_t heads;
  const float *cos, *sin;  // [rows, width / 2] that queries and keys are still to be turned by; null: they are
};

/// Whether attend_rows can turn queries and keys itself, where rows are alone.
bool can_rotate_heads(const KvCachePointers& layer);

/// Stores the rows' rotated keys and values in their blocks. Device pointers. Returns a CUDA error code, 0 for none.
int store_rows(const KvCachePointers& layer, const int32_t* tables, const PagedRow* rows, int64_t count,
               const HeadRows& heads, void* stream);

/// Puts the rows' keys and values into their blocks, then writes out [rows, heads, width]. `alone`: no row sees
/// another's key, which saves a launch. A head has at most 256 dimensions. Sums are in float32. All pointers are the
/// device's. Returns a CUDA error code, 0 for none.
int attend_rows(const KvCachePointers& layer, const PagedAttentionConfig& config, const int32_t* tables,
                const PagedRow* rows, int64_t count, const HeadRows& heads, bool alone, void* out, void* stream);

}  // namespace keel::cuda
