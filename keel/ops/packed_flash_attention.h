#pragma once

#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/ops/layer_ops.h"
#include "keel/ops/packed_attention.h"

namespace keel {

/// Attention over packed segments on a GPU, in narrow numbers and without a matrix of who looks at whom: what a token
/// sees of its own segment and what it sees of its prompt are two passes of flash attention, put together by their
/// log-sums. All completions of a prompt are one run of queries to it, so that its keys are not copied for each.
class PackedFlashAttention {
 public:
  PackedFlashAttention(const std::vector<Segment>& segments, at::Device device);

  /// Whether it can stand for PackedAttention: no caps, no windows, heads of a width that the kernels have.
  static bool supports(const AttentionConfig& attention, at::Device device, at::ScalarType type, int64_t width);

  /// Queries [N, heads, D], keys and values [N, kv_heads, D] to [N, heads, D].
  Tensor operator()(const AttentionConfig& attention, const Tensor& query, const Tensor& key,
                    const Tensor& value) const;

  /// Runs of queries, each with its run of keys.
  struct Runs {
    Tensor query_begins, key_begins;  // [runs + 1] int32
    int64_t most_queries = 0, most_keys = 0;
    bool causal = false;
  };
  /// Packed rows that follow each other, or any.
  struct Rows {
    int64_t begin = 0, count = 0;
    Tensor any = {};  // [count] int64, where there are gaps

    Tensor of(const Tensor& x, int64_t dim = 0) const;
    void add_to(const Tensor& x, const Tensor& added) const;
  };
  struct Layout {
    Runs own;                   // each segment to itself, with its prompt where that is nobody else's
    Runs shared;                // the completions of a prompt to it
    Rows query_rows, key_rows;  // of the shared runs; none: no token has a prompt elsewhere
  };

 private:
  Layout layout_;
};

}  // namespace keel
