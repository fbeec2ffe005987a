#pragma once

#include <cstdint>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/ops/layer_ops.h"

namespace keel {

/// A run of packed tokens that look at a prefix (a prompt packed elsewhere, or nothing) and, causally, at themselves.
struct Segment {
  int64_t begin = 0, length = 0;
  int64_t prefix_begin = 0, prefix_length = 0;
};

/// Attention over packed segments, without padding in linear layers; a prompt shared by several completions is computed
/// once. Keys and values are gathered per segment; autograd adds the gradients of a shared prompt.
class PackedAttention {
 public:
  /// `window`: that of the model's sliding layers, 0 where it has none.
  PackedAttention(const std::vector<Segment>& segments, int64_t tokens, int64_t window, at::Device device);

  /// Queries [N, heads, D], keys and values [N, kv_heads, D] to [N, heads, D]. The attention's window is 0 or the one
  /// above.
  Tensor operator()(const AttentionConfig& attention, const Tensor& query, const Tensor& key,
                    const Tensor& value) const;

 private:
  /// Segments that are attended in one call; rows beyond a segment's end repeat row 0 and are masked or dropped.
  struct Batch {
    int64_t segments = 0, query_length = 0, key_length = 0;
    Tensor query_rows;   // [segments * query_length] packed row of each query
    Tensor key_rows;     // [segments * key_length] packed row of each key
    Tensor mask;         // [segments or 1, 1, query_length, key_length] float: 0 to look, -inf not to
    Tensor window_mask;  // the same for sliding layers
  };
  Batch make_batch(const std::vector<Segment>& segments, int64_t first_row, int64_t window, at::Device device);

  std::vector<Batch> batches_;
  std::vector<int64_t> output_of_row_;  // while building: the padded output row of each packed row
  Tensor output_rows_;                  // [N] the same, on the device
};

}  // namespace keel
