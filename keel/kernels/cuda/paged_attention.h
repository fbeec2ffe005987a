#pragma once

#include "keel/kernels/paged_row.h"

namespace keel::cuda {

/// Queries [rows, heads, width], keys and values [rows, kv_heads, width] of the layer's type; strides in elements.
struct HeadRows {
  const void *query, *key, *value;
  int64_t query_stride, key_stride, value_stride;
  int64_t heads;
  const float *cos, *sin;  // [rows, width / 2] rotary angles of queries and keys; null: already rotated
};

/// Returns whether attend_rows() can rotate queries and keys itself, if each sequence has one row.
bool can_rotate_heads(const KvCachePointers& layer);

/// Stores the rows' rotated keys and values in their blocks. Device pointers. Returns a CUDA error code or 0.
int store_rows(const KvCachePointers& layer, const int32_t* tables, const PagedRow* rows, int64_t count,
               const HeadRows& heads, void* stream);

/// Writes the rows' keys and values to the KV cache, then computes out [rows, heads, width]. `one_row_per_sequence`: no
/// row attends to the key of another row, which saves a kernel launch. A head has at most 256 dimensions. Sums are
/// float32. Device pointers. Returns a CUDA error code or 0.
int attend_rows(const KvCachePointers& layer, const PagedAttentionConfig& config, const int32_t* tables,
                const PagedRow* rows, int64_t count, const HeadRows& heads, bool one_row_per_sequence, void* out,
                void* stream);

}  // namespace keel::cuda
