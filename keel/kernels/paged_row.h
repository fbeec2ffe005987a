#pragma once

// Types of paged attention, shared by CPU and GPU kernels. Keys and values are stored in blocks of kBlockTokens tokens.
// Samples of one prompt share the prompt's blocks.

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel {

constexpr int64_t kBlockTokens = 16;

/// KV cache of one layer: [blocks, kv_heads, kBlockTokens * width] each. The kernels define the layout within a block.
struct KvCachePointers {
  void *keys, *values;
  FloatType type;
  int64_t kv_heads, width;
};

/// One token (row) of a forward pass and the keys it attends to: the first `prompt_keys` keys of the prompt, then the
/// first `own_keys` keys of its own sequence. The last of these keys is the token's own. `prompt_table` and `own_table`
/// are offsets into the list of block indices.
struct PagedRow {
  int32_t prompt_table, prompt_keys, own_table, own_keys;
};

/// AttentionConfig of ops in the kernels' types.
struct PagedAttentionConfig {
  float scale, softcap;  // softcap 0: none
  int64_t window;        // number of latest keys that are attended to; 0: all
  bool deterministic;    // the order of summation does not depend on other rows; always so on a CPU
};

}  // namespace keel
