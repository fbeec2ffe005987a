#pragma once

#include <functional>
#include <vector>

#include "keel/ops/packed_attention.h"
#include "keel/ops/paged_attention.h"

namespace keel {

/// From queries [N, heads, D], keys and values [N, kv_heads, D] to [N, heads, D].
using PackedAttentionFunction =
    std::function<Tensor(const AttentionConfig&, const Tensor&, const Tensor&, const Tensor&)>;

/// Attention over packed segments with the bits of sampling: every token looks at its keys through the kernel that the
/// sampler's tokens look through, which adds up in one order of the keys. Gradients are those of the plain way.
class PackedPagedAttention {
 public:
  /// `plain`: of the same segments.
  PackedPagedAttention(const std::vector<Segment>& segments, int64_t tokens, at::Device device,
                       PackedAttentionFunction plain);

  /// Queries [N, heads, D], keys and values [N, kv_heads, D] to [N, heads, D].
  Tensor operator()(const AttentionConfig& attention, const Tensor& query, const Tensor& key,
                    const Tensor& value) const;

 private:
  PackedAttentionFunction plain_;
  PagedAttention rows_;
};

}  // namespace keel
