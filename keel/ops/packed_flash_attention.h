#pragma once

#include <memory>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/ops/layer_ops.h"
#include "keel/ops/packed_attention.h"

namespace keel {

/// Flash attention over packed segments on a GPU, for bf16 and fp16. Attention within a segment and attention to its
/// prefix are two variable-length calls, merged by their log-sum-exps. All completions of a prompt attend to it as one
/// span of queries, so that the prompt's keys are not copied for each of them.
class PackedFlashAttention {
 public:
  PackedFlashAttention(const std::vector<Segment>& segments, at::Device device);

  /// Returns whether it can replace PackedAttention. Softcaps, windows and some head widths are not supported.
  static bool supports(const AttentionConfig& attention, at::Device device, at::ScalarType type, int64_t width);

  /// Queries [N, heads, D], keys and values [N, kv_heads, D] to [N, heads, D].
  Tensor operator()(const AttentionConfig& attention, const Tensor& query, const Tensor& key,
                    const Tensor& value) const;

  struct Layout;

 private:
  std::shared_ptr<const Layout> layout_;
};

}  // namespace keel
