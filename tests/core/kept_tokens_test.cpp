#include "keel/core/kept_tokens.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

std::vector<uint32_t> bitmap_of(int64_t vocab, int64_t first, int64_t count) {
  std::vector<uint32_t> words(static_cast<size_t>((vocab + 31) / 32));
  for (int64_t token = first; token < first + count; ++token) words[token / 32] |= 1u << token % 32;
  return words;
}

TEST(KeptTokens, StoreSmallSetsAsIdsLargeOnesAsBitmapsAndAllTokensAsNothing) {
  KeptTokens kept{.vocab = 2000};
  kept.append(bitmap_of(2000, 31, 3).data());
  EXPECT_EQ(kept.words, (std::vector<uint32_t>{31, 32, 33}));
  kept.append(bitmap_of(2000, 0, 2000).data());
  EXPECT_EQ(kept.words.size(), 3u);
  kept.append(bitmap_of(2000, 500, 1024).data());
  EXPECT_EQ(kept.words.size(), 3u + 1024);
  EXPECT_EQ(kept.words.back(), 1523u);
  const std::vector<uint32_t> large = bitmap_of(2000, 500, 1025);
  kept.append(large.data());
  EXPECT_EQ(std::vector<uint32_t>(kept.words.end() - 63, kept.words.end()), large);
  EXPECT_EQ(kept.sizes, (std::vector<int32_t>{3, 2000, 1024, 1025}));
  EXPECT_EQ(kept.bytes(), 4 * (4 + 3 + 1024 + 63));
}

}  // namespace
}  // namespace keel
