#include "keel/rollout/hidden_state_buffer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensors.h"

namespace keel {
namespace {

TEST(HiddenStateBuffer, ReturnsTheStatesOfEachRolloutInOrder) {
  // Rollout r begins at step r and has 5 + 3 r tokens; the state of its token t is (r, t).
  constexpr int64_t kCount = 9;
  HiddenStateBuffer record(kCount);
  const auto length = [](int64_t r) { return 5 + 3 * r; };
  int64_t taken = 0;
  for (int64_t step = 0; taken < kCount; ++step) {
    std::vector<int64_t> rollouts;
    std::vector<float> states;
    for (int64_t r = kCount - 1; r >= 0; --r)
      if (step >= r && step < r + length(r)) {
        rollouts.push_back(r);
        states.insert(states.end(), {static_cast<float>(r), static_cast<float>(step - r)});
      }
    rollouts.push_back(-1);  // dropped
    states.insert(states.end(), {-1.0f, -1.0f});
    record.add(at::tensor(states).view({-1, 2}), rollouts);
    for (int64_t r = 0; r < kCount; ++r) {
      if (step + 1 != r + length(r)) continue;
      const Tensor got = record.take(r, length(r));
      ASSERT_EQ(got.size(0), length(r));
      EXPECT_TRUE(got.select(1, 0).eq(r).all().item<bool>()) << r;
      EXPECT_TRUE(got.select(1, 1).equal(at::arange(length(r)).to(at::kFloat))) << r;
      ++taken;
    }
  }
}

}  // namespace
}  // namespace keel
