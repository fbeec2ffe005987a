#pragma once

#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/kernels/paged_row.h"
#include "keel/ops/layer_ops.h"

namespace keel {

/// KV cache of one layer: keys and values in blocks [blocks, kv_heads, kBlockTokens * D], in the dtype of queries, keys
/// and values (float32 on a CPU). The device's kernels define the layout within a block.
struct KvCacheLayer {
  Tensor keys, values;
};

/// Paged attention of one forward pass, whose rows may be prompt tokens and newly sampled tokens. `deterministic`: a
/// row's bits depend only on its own keys and on its prompt's length, so that training can reproduce them. Always so on
/// a CPU.
class PagedAttention {
 public:
  /// For rows that may attend to each other's keys, as in prefill.
  PagedAttention(const std::vector<PagedRow>& rows, const std::vector<int32_t>& tables, at::Device device,
                 bool deterministic = false);
  /// For decoding, with one row per sequence: rows [N, 4] and tables [M], int32. They may change between passes.
  PagedAttention(Tensor rows, Tensor tables, bool deterministic = false)
      : rows_(std::move(rows)),
        tables_(std::move(tables)),
        one_row_per_sequence_(true),
        deterministic_(deterministic) {}

  int64_t table_size() const { return tables_.size(0); }

  /// Writes the rows' keys and values, already rotated, to the KV cache. For GPUs only.
  void store(const KvCacheLayer& layer, const Heads& rotated) const;

  /// Writes the rows' keys and values to the KV cache, then computes the attention [N, heads, D].
  Tensor attend(const KvCacheLayer& layer, const AttentionConfig& attention, const Heads& heads) const;

 private:
  Tensor rows_;    // [N, 4] int32: a PagedRow each
  Tensor tables_;  // [M] int32 block indices
  bool one_row_per_sequence_ = false, deterministic_ = false;
};

/// The rows as a tensor [N, 4] int32 on the CPU.
Tensor to_tensor(const std::vector<PagedRow>& rows);

}  // namespace keel
