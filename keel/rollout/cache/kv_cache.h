#pragma once

#include <cstdint>
#include <vector>

#include "keel/model/network/model_config.h"
#include "keel/ops/paged_attention.h"

namespace keel {

/// Paged KV cache: owns the keys and values of all layers, in blocks of kBlockTokens tokens, and allocates the blocks.
class KvCache {
 public:
  /// `type`: dtype of keys and values; a CPU always uses float32.
  KvCache(const ModelConfig& config, int64_t blocks, at::ScalarType type, at::Device device);

  static int64_t blocks_for(int64_t tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }
  /// Upper bound on the blocks that `sequences` sequences use at a time: those of the longest completions, plus those
  /// of the longest prompts, at most one prompt per sequence.
  static int64_t max_blocks(std::vector<int64_t> prompt_tokens, std::vector<int64_t> completion_tokens,
                            int64_t sequences);
  static int64_t bytes(const ModelConfig& config, int64_t blocks, at::ScalarType type, at::Device device);

  int32_t allocate();
  std::vector<int32_t> allocate(int64_t count);
  void free(const std::vector<int32_t>& blocks);
  const KvCacheLayer& layer(int64_t index) const { return layers_[index]; }

 private:
  std::vector<KvCacheLayer> layers_;
  std::vector<int32_t> free_;
};

}  // namespace keel
