#pragma once

#include <memory>
#include <vector>

#include "keel/ops/block_attention.h"
#include "keel/ops/packed_attention.h"

namespace keel {

/// Attention over packed segments with the bits of sampling: every token looks at its keys through the kernel that the
/// sampler's tokens look through, which adds up in the order of the keys. Gradients are those of PackedAttention. For
/// float32 on a CPU.
class PackedBlockAttention {
 public:
  /// `plain`: of the same segments.
  PackedBlockAttention(const std::vector<Segment>& segments, int64_t tokens,
                       std::shared_ptr<const PackedAttention> plain);

  /// Queries [N, heads, D], keys and values [N, kv_heads, D] to [N, heads, D].
  Tensor operator()(const AttentionRule& rule, const Tensor& query, const Tensor& key, const Tensor& value) const;

 private:
  std::shared_ptr<const PackedAttention> plain_;
  int64_t blocks_ = 0;
  BlockRows rows_;
};

}  // namespace keel
