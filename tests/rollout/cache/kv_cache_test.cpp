#include "keel/rollout/cache/kv_cache.h"

#include <gtest/gtest.h>

#include "tests/support/reference_model.h"

namespace keel {
namespace {

TEST(KvCache, MaxBlocksCountsTheLongestPromptsAndCompletionsOfABatch) {
  // Blocks of 16 tokens: completions of 20 tokens have two each; prompts of 40, 17 and 5 tokens three, two and one.
  const std::vector<int64_t> eight(8, 20);
  EXPECT_EQ(KvCache::max_blocks({5, 40, 17}, eight, 2), 4 + 3 + 2);
  EXPECT_EQ(KvCache::max_blocks({5, 40, 17}, eight, 1), 2 + 3);
  EXPECT_EQ(KvCache::max_blocks({5, 40, 17}, eight, 8), 16 + 3 + 2 + 1);
  EXPECT_EQ(KvCache::max_blocks({16}, {16}, 1), 2);
  EXPECT_EQ(KvCache::max_blocks({1, 1, 1}, {16, 100, 33}, 2), 2 + 7 + 3);
}

TEST(KvCache, CountsTheBytesOfKeysAndValues) {
  const ModelConfig config = tiny_config(6, 2, false);  // 2 layers, 2 KV heads of width 4
  EXPECT_EQ(KvCache::bytes(config, 3, at::kFloat, at::kCPU), 3 * 16 * 2 * 2 * 2 * 4 * 4);
  EXPECT_EQ(KvCache::bytes(config, 3, at::kBFloat16, at::kCPU), 3 * 16 * 2 * 2 * 2 * 4 * 4);  // float32 on a CPU
  EXPECT_EQ(KvCache::bytes(config, 3, at::kBFloat16, at::kCUDA), 3 * 16 * 2 * 2 * 2 * 4 * 2);
}

}  // namespace
}  // namespace keel
