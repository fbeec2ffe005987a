#pragma once

#include <functional>
#include <vector>

#include "keel/ops/packed_attention.h"
#include "keel/ops/paged_attention.h"

namespace keel {

/// Maps queries [N, heads, D], keys and values [N, kv_heads, D] to [N, heads, D].
using PackedAttentionFunction =
    std::function<Tensor(const AttentionConfig&, const Tensor&, const Tensor&, const Tensor&)>;

/// Training attention over packed segments that is bitwise equal to the sampler's. The forward pass runs the sampler's
/// paged attention kernel with a fixed order of summation. With gradients, it also runs a reference attention, through
/// which autograd differentiates.
class PackedPagedAttention {
 public:
  /// `reference`: attention over the same segments.
  PackedPagedAttention(const std::vector<Segment>& segments, int64_t tokens, at::Device device,
                       PackedAttentionFunction reference);

  Tensor operator()(const AttentionConfig& attention, const Tensor& query, const Tensor& key,
                    const Tensor& value) const;

 private:
  PackedAttentionFunction reference_;
  PagedAttention paged_;
};

}  // namespace keel
