#pragma once

#include <functional>
#include <vector>

#include "keel/ops/block_attention.h"
#include "keel/ops/packed_attention.h"

namespace keel {

/// From queries [N, heads, D], keys and values [N, kv_heads, D] to [N, heads, D].
using PackedAttend = std::function<Tensor(const AttentionRule&, const Tensor&, const Tensor&, const Tensor&)>;

/// Attention over packed segments with the bits of sampling: every token looks at its keys through the kernel that the
/// sampler's tokens look through, which adds up in one order of the keys. Gradients are those of the plain way.
class PackedBlockAttention {
 public:
  /// `plain`: of the same segments.
  PackedBlockAttention(const std::vector<Segment>& segments, int64_t tokens, at::Device device, PackedAttend plain);

  /// Queries [N, heads, D], keys and values [N, kv_heads, D] to [N, heads, D].
  Tensor operator()(const AttentionRule& rule, const Tensor& query, const Tensor& key, const Tensor& value) const;

 private:
  PackedAttend plain_;
  BlockRows rows_;
};

}  // namespace keel
