#pragma once

#include "keel/kernels/paged_row.h"

// A row's result depends on its own keys and values alone, added in one order: the same bits whatever other rows there
// are and however its keys are spread over blocks. Layers are float32. Keys are stored token by token within a
// dimension, so that a step over the dimensions scores a whole block; values dimension by dimension within a token.

namespace keel::cpu {

/// Puts the keys and values [rows, kv_heads, width] of the rows into their places.
void store_rows(const KvCachePointers& layer, const int32_t* tables, const PagedRow* rows, int64_t count,
                const float* key, const float* value);

/// out [rows, heads, width] of the rows' queries; `scores` has room for the keys of one row and a block more.
void attend_rows(const KvCachePointers& layer, const PagedAttentionConfig& config, const int32_t* tables,
                 const PagedRow* rows, int64_t count, const float* query, int64_t heads, float* scores, float* out);

}  // namespace keel::cpu
