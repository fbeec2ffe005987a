#pragma once

#include <cstdint>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/ops/layer_ops.h"

namespace keel {

/// A span of packed tokens that attend to a prefix (a prompt packed elsewhere, or nothing) and causally to themselves.
struct Segment {
  int64_t begin = 0, length = 0;
  int64_t prefix_begin = 0, prefix_length = 0;
};

/// Attention over packed segments. Only the attention pads them; linear layers do not. A prompt that several
/// completions share is computed once, and autograd sums its gradients.
class PackedAttention {
 public:
  /// `window`: window of the model's sliding layers; 0: none.
  PackedAttention(const std::vector<Segment>& segments, int64_t tokens, int64_t window, at::Device device);

  /// Maps queries [N, heads, D], keys and values [N, kv_heads, D] to [N, heads, D]. `attention.window` must be 0 or
  /// `window`.
  Tensor operator()(const AttentionConfig& attention, const Tensor& query, const Tensor& key,
                    const Tensor& value) const;

 private:
  /// Segments that are padded to one batch. Padding rows repeat row 0 and are masked or dropped.
  struct PaddedBatch {
    int64_t segments = 0, query_length = 0, key_length = 0;
    Tensor query_rows;   // [segments * query_length] packed row of each query
    Tensor key_rows;     // [segments * key_length] packed row of each key
    Tensor mask;         // [segments or 1, 1, query_length, key_length] additive float mask: 0 or -inf
    Tensor window_mask;  // the same for sliding layers
  };
  PaddedBatch make_batch(const std::vector<Segment>& segments, int64_t first_row, int64_t window, at::Device device);

  std::vector<PaddedBatch> batches_;
  std::vector<int64_t> output_rows_host_;  // padded row of each packed row; used by the constructor
  Tensor output_rows_;                     // [N] the same on the device
};

}  // namespace keel
