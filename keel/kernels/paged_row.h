#pragma once

// Keys and values in blocks of kBlockTokens tokens, as sampling keeps them: sequences begin and end at any time, and
// the samples of a group share their prompt's blocks. CPU and GPU kernels share these names.

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel {

constexpr int64_t kBlockTokens = 16;

/// The blocks of one layer, [blocks, kv_heads, kBlockTokens * width] each. The kernels choose the order within a block.
struct KvCachePointers {
  void *keys, *values;
  FloatType type;
  int64_t kv_heads, width;
};

/// One token of a forward pass and what it sees: the first keys of a prompt's blocks, then the first ones of its
/// sequence's own. The last key that it sees is its own. Tables are offsets into a list of blocks.
struct PagedRow {
  int32_t prompt_table, prompt_keys, own_table, own_keys;
};

/// How a layer attends; AttentionConfig of ops in the kernels' types.
struct PagedAttentionConfig {
  float scale, softcap;  // no cap: 0
  int64_t window;        // of the latest keys that are seen; all: 0
  bool deterministic;    // added up in the same order whatever rows there are beside it; a CPU always does
};

}  // namespace keel
