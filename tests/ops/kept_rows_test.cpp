#include "keel/ops/kept_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "keel/core/kept_tokens.h"
#include "tests/support/kept_mask.h"
#include "tests/support/kept_rows.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

/// Rows with one, some, 1,024, 1,025 and all tokens.
Tensor masks(int64_t vocab) {
  const Tensor order = ranks_in_rows(random_normal({5, vocab}, 7));
  return order < int64_tensor({1, 17, 1024, 1025, vocab}).unsqueeze(1);
}

TEST(KeptRows, BitmapsHaveTheTokensWithFiniteLogits) {
  for (const int64_t vocab : {1, 31, 32, 33, 2500}) {
    const Tensor mask = masks(vocab), logits = random_normal({5, vocab}, 1).masked_fill(mask.logical_not(), -INFINITY);
    EXPECT_TRUE(kept_mask(to_kept_tokens(logits)).equal(mask)) << vocab;
  }
}

TEST(KeptRows, ExcludedTokensGetMinusInfinityAndOthersKeepTheirLogits) {
  for (const int64_t vocab : {1, 33, 1024, 1025, 2500}) {
    const Tensor mask = masks(vocab), logits = random_normal({5, vocab}, 2),
                 want = logits.masked_fill(mask.logical_not(), -INFINITY);
    const KeptRows kept = to_kept_rows(to_kept_tokens(want));
    exclude_other_tokens(logits, kept);
    EXPECT_TRUE(logits.equal(want)) << vocab;
    const Tensor last = random_normal({2, vocab}, 3);
    const Tensor want_last = last.masked_fill(mask.narrow(0, 3, 2).logical_not(), -INFINITY);
    exclude_other_tokens(last, kept.rows(3, 2));
    EXPECT_TRUE(last.equal(want_last)) << vocab;
  }
  const Tensor logits = random_normal({2, 5}, 4), copy = logits.clone();
  exclude_other_tokens(logits, {});
  EXPECT_TRUE(logits.equal(copy));
}

}  // namespace
}  // namespace keel
