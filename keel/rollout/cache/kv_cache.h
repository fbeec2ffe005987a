#pragma once

#include <cstdint>
#include <vector>

#include "keel/model/network/model_config.h"
#include "keel/ops/paged_attention.h"

namespace keel {

/// The keys and values of all sequences that are being decoded, in blocks of kBlockTokens tokens that are handed out
/// and come back. It owns the memory of all blocks.
class KvCache {
 public:
  /// For keys and values of `type`; on a CPU they are kept in float32.
  KvCache(const ModelConfig& config, int64_t blocks, at::ScalarType type, at::Device device);

  static int64_t blocks_for(int64_t tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }
  /// As many blocks as `sequences` that are decoded together can ever hold: those of the longest completions, and
  /// beside them those of the longest prompts, of which each has one at most.
  static int64_t max_blocks(std::vector<int64_t> prompt_tokens, std::vector<int64_t> completion_tokens,
                            int64_t sequences);
  /// The memory of so many blocks.
  static int64_t bytes(const ModelConfig& config, int64_t blocks, at::ScalarType type, at::Device device);

  int32_t take();
  std::vector<int32_t> take(int64_t count);
  void give_back(const std::vector<int32_t>& blocks);
  const KvCacheLayer& layer(int64_t number) const { return layers_[number]; }

 private:
  std::vector<KvCacheLayer> layers_;
  std::vector<int32_t> free_;
};

}  // namespace keel
