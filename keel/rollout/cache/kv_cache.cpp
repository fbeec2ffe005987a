#include "keel/rollout/cache/kv_cache.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "keel/core/error.h"

namespace keel {

namespace {

at::TensorOptions cache_options(at::ScalarType type, at::Device device) {
  return at::TensorOptions(device.is_cpu() ? at::kFloat : type).device(device);
}

}  // namespace

KvCache::KvCache(const ModelConfig& config, int64_t blocks, at::ScalarType type, at::Device device) {
  const at::TensorOptions options = cache_options(type, device);
  const int64_t heads = config.num_key_value_heads, block_size = kBlockTokens * config.head_dim;
  // Not initialised: no kernel reads a key before it is written, and untouched pages cost no memory.
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    layers_.push_back(
        {at::empty({blocks, heads, block_size}, options), at::empty({blocks, heads, block_size}, options)});
  for (int64_t block = blocks; block-- > 0;) free_.push_back(static_cast<int32_t>(block));
}

int64_t KvCache::max_blocks(std::vector<int64_t> prompt_tokens, std::vector<int64_t> completion_tokens,
                            int64_t sequences) {
  int64_t blocks = 0;
  for (std::vector<int64_t>* lengths : {&prompt_tokens, &completion_tokens}) {
    std::sort(lengths->rbegin(), lengths->rend());
    if (static_cast<int64_t>(lengths->size()) > sequences) lengths->resize(static_cast<size_t>(sequences));
    for (const int64_t tokens : *lengths) blocks += blocks_for(tokens);
  }
  return blocks;
}

int64_t KvCache::bytes(const ModelConfig& config, int64_t blocks, at::ScalarType type, at::Device device) {
  return 2 * static_cast<int64_t>(cache_options(type, device).dtype().itemsize()) * config.num_hidden_layers *
         config.num_key_value_heads * config.head_dim * kBlockTokens * blocks;
}

int32_t KvCache::allocate() {
  if (free_.empty()) fail(ExitCode::kInternal, "the KV cache has no free block");
  const int32_t block = free_.back();
  free_.pop_back();
  return block;
}

std::vector<int32_t> KvCache::allocate(int64_t count) {
  std::vector<int32_t> blocks;
  for (int64_t i = 0; i < count; ++i) blocks.push_back(allocate());
  return blocks;
}

void KvCache::free(const std::vector<int32_t>& blocks) {
  free_.insert(free_.end(), blocks.rbegin(), blocks.rend());  // reuse written blocks first
}

}  // namespace keel
