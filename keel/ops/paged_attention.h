#pragma once

#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/kernels/paged_row.h"
#include "keel/ops/layer_ops.h"

namespace keel {

/// The keys and values of one layer in blocks [blocks, kv_heads, kBlockTokens * D], of the type that queries, keys and
/// values come in: float32 on a CPU. How a block's numbers stand is the device's own affair.
struct KvCacheLayer {
  Tensor keys, values;
};

/// The rows of one forward pass over sequences whose keys and values stand in blocks; tokens of prompts and newly drawn
/// tokens may stand beside each other. `deterministic`: a row's bits depend on its own keys alone and on where their
/// prompt ends, which training cuts as sampling does (a CPU's always do).
class PagedAttention {
 public:
  /// Of a pass whose rows may see each other's keys.
  PagedAttention(const std::vector<PagedRow>& rows, const std::vector<int32_t>& tables, at::Device device,
                 bool deterministic = false);
  /// Of a pass with one row per sequence: rows [N, 4] and tables [M], int32, which may change between passes.
  PagedAttention(Tensor rows, Tensor tables, bool deterministic = false)
      : rows_(std::move(rows)), tables_(std::move(tables)), alone_(true), one_order_(deterministic) {}

  int64_t table_size() const { return tables_.size(0); }

  /// Puts the rows' keys and values, which are turned, into their blocks on a GPU.
  void store(const KvCacheLayer& layer, const Heads& rotated) const;

  /// Puts the rows' keys and values into their blocks, then attends the queries to what each row sees: [N, heads, D].
  Tensor attend(const KvCacheLayer& layer, const AttentionConfig& attention, const Heads& heads) const;

 private:
  Tensor rows_;    // [N, 4] int32: a PagedRow each
  Tensor tables_;  // [M] int32
  bool alone_ = false, one_order_ = false;
};

/// Rows as a tensor [N, 4] int32 of the CPU.
Tensor tensor_of(const std::vector<PagedRow>& rows);

}  // namespace keel
