#pragma once

#include "keel/kernels/paged_row.h"

// Paged attention in float32. The bits of a row's result do not depend on other rows or on the placement of its blocks.
// Layout of a block: keys [width, kBlockTokens], so that one vector operation scores a whole block; values
// [kBlockTokens, width].

namespace keel::cpu {

/// Writes the keys and values [rows, kv_heads, width] of the rows to the KV cache.
void store_rows(const KvCachePointers& layer, const int32_t* tables, const PagedRow* rows, int64_t count,
                const float* key, const float* value);

/// Computes out [rows, heads, width]. `scores` is a buffer for the keys of one row plus one block.
void attend_rows(const KvCachePointers& layer, const PagedAttentionConfig& config, const int32_t* tables,
                 const PagedRow* rows, int64_t count, const float* query, int64_t heads, float* scores, float* out);

}  // namespace keel::cpu
