#pragma once

#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/kernels/block_rows.h"
#include "keel/ops/attention_rule.h"

namespace keel {

/// The keys and values of one layer in blocks, of the type that queries, keys and values come in: float32 on a CPU.
struct BlockTensors {
  Tensor keys;    // [blocks, kv_heads, D, kBlockTokens]
  Tensor values;  // [blocks, kv_heads, kBlockTokens, D]
};

/// The rows of one forward pass over sequences whose keys and values stand in blocks; tokens of prompts and newly drawn
/// tokens may stand beside each other.
class BlockRows {
 public:
  BlockRows(std::vector<BlockRow> rows, std::vector<int32_t> tables, at::Device device);

  /// Puts the rows' keys and values [N, kv_heads, D] into their blocks, then attends the queries [N, heads, D] to what
  /// each row sees.
  Tensor attend(const BlockTensors& layer, const AttentionRule& rule, const Tensor& query, const Tensor& key,
                const Tensor& value) const;

 private:
  std::vector<BlockRow> rows_;
  std::vector<int32_t> tables_;
  int64_t most_keys_ = 0;               // that any row sees
  Tensor device_rows_, device_tables_;  // the same, where the rows are computed on a GPU
};

}  // namespace keel
