#include "keel/ops/paged_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/paged_attention_case.h"

namespace keel {
namespace {

TEST(PagedAttention, EqualsCausalSoftmaxAttention) {
  for (const int64_t width : {2, 8, 20, 64, 80, 128})
    for (const auto& [prompt, own] : {std::pair<int64_t, int64_t>{1, 3}, {15, 20}, {16, 16}, {17, 33}, {70, 40}})
      for (const AttentionConfig& attention : kAttentionConfigs) {
        const PagedAttentionCase given(prompt, own, width);
        EXPECT_LT(relative_difference(given.decoded(attention), given.expected(attention)), 2e-6)
            << width << ", " << prompt << " + " << own << ", window " << attention.window;
      }
}

TEST(PagedAttention, BitsDoNotDependOnTheBatchOrTheBlocks) {
  const AttentionConfig attention{.scale = 0.3};
  PagedAttentionCase given(37, 21, 64);
  const Tensor at_once = given.pass(attention, 0, 58);
  std::vector<Tensor> parts{given.pass(attention, 0, 10, 3), given.pass(attention, 10, 37, 3)};
  for (int64_t i = 37; i < 58; ++i) parts.push_back(given.pass(attention, i, i + 1, 3));
  EXPECT_TRUE(at::cat(parts).equal(at_once));
  given.make_all_prompt();  // A key gives the same bits in prompt and completion.
  EXPECT_TRUE(given.pass(attention, 0, 58, 5).equal(at_once));
}

}  // namespace
}  // namespace keel
