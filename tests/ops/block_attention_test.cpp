#include "keel/ops/block_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/block_attention_case.h"

namespace keel {
namespace {

TEST(BlockAttention, IsSoftmaxAttentionToThePromptAndToWhatCameBefore) {
  for (const int64_t width : {2, 8, 20, 64, 80, 128})
    for (const auto& [prompt, own] : {std::pair<int64_t, int64_t>{1, 3}, {15, 20}, {16, 16}, {17, 33}, {70, 40}})
      for (const AttentionRule& rule : kAttentionRules) {
        const BlockAttentionCase given(prompt, own, width);
        EXPECT_LT(relative_difference(given.decoded(rule), given.expected(rule)), 2e-6)
            << width << ", " << prompt << " + " << own << ", window " << rule.window;
      }
}

TEST(BlockAttention, GivesTheSameBitsHoweverTheRowsAndTheirKeysAreSpread) {
  const AttentionRule rule{.scale = 0.3};
  BlockAttentionCase given(37, 21, 64);
  const Tensor at_once = given.pass(rule, 0, 58);
  std::vector<Tensor> parts{given.pass(rule, 0, 10, 3), given.pass(rule, 10, 37, 3)};
  for (int64_t i = 37; i < 58; ++i) parts.push_back(given.pass(rule, i, i + 1, 3));
  EXPECT_TRUE(at::cat(parts).equal(at_once));
  given.be_all_prompt();  // where a key stands does not matter
  EXPECT_TRUE(given.pass(rule, 0, 58, 5).equal(at_once));
}

}  // namespace
}  // namespace keel
