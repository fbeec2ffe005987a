#include "keel/ops/packed_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensors.h"

namespace keel {
namespace {

/// Reference in float64, one query at a time: softmax over the prefix and the segment up to the query.
Tensor naive_attention(const std::vector<Segment>& segments, const AttentionConfig& attention, const Tensor& query,
                       const Tensor& key, const Tensor& value) {
  const int64_t tokens = query.size(0), heads = query.size(1), kv_heads = key.size(1);
  std::vector<Tensor> rows(tokens);
  for (const Segment& segment : segments) {
    for (int64_t i = 0; i < segment.length; ++i) {
      std::vector<int64_t> visible;
      for (int64_t j = 0; j < segment.prefix_length; ++j) visible.push_back(segment.prefix_begin + j);
      for (int64_t j = 0; j <= i; ++j) visible.push_back(segment.begin + j);
      if (attention.window > 0 && static_cast<int64_t>(visible.size()) > attention.window)
        visible.erase(visible.begin(), visible.end() - attention.window);
      std::vector<Tensor> outputs;
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t shared = h / (heads / kv_heads);
        const Tensor keys = key.select(1, shared).index_select(0, int64_tensor(visible));
        const Tensor values = value.select(1, shared).index_select(0, int64_tensor(visible));
        Tensor scores = keys.mv(query[segment.begin + i][h]) * attention.scale;
        if (attention.softcap > 0) scores = attention.softcap * at::tanh(scores / attention.softcap);
        outputs.push_back(values.t().mv(scores.softmax(0)));
      }
      rows[segment.begin + i] = at::stack(outputs);
    }
  }
  return at::stack(rows);
}

struct Layout {
  const char* name;
  std::vector<Segment> segments;  // {begin, length, prefix_begin, prefix_length}
  int64_t tokens, heads, kv_heads;
  AttentionConfig attention = {.scale = 0.4};
};

class Layouts : public testing::TestWithParam<Layout> {};

TEST_P(Layouts, EqualNaiveAttentionInValuesAndGradients) {
  const auto& [name, segments, tokens, heads, kv_heads, attention] = GetParam();
  const int64_t width = 6;
  const auto input = [&](int64_t count, uint64_t seed) { return random_normal({tokens, count, width}, seed) * 2; };
  std::vector<Tensor> mine{input(heads, 1), input(kv_heads, 2), input(kv_heads, 3)}, naive;
  for (Tensor& x : mine) {
    naive.push_back(x.to(at::kDouble).requires_grad_());
    x.requires_grad_();
  }
  const Tensor got =
      PackedAttention(segments, tokens, attention.window, at::kCPU)(attention, mine[0], mine[1], mine[2]);
  const Tensor want = naive_attention(segments, attention, naive[0], naive[1], naive[2]);
  EXPECT_LT(relative_difference(got, want), 1e-6);

  const Tensor direction = random_normal(want.sizes(), 4, at::kDouble);
  got.backward(direction.to(at::kFloat));
  want.backward(direction);
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(relative_difference(mine[i].grad(), naive[i].grad()), 5e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Of, Layouts,
    testing::Values(
        Layout{"OneSequence", {{0, 5}}, 5, 3, 3}, Layout{"OneToken", {{0, 1}}, 1, 3, 1},
        Layout{"SequencesOfUnequalLength", {{0, 5}, {5, 1}, {6, 3}}, 9, 4, 2},
        Layout{"EqualCompletionsOfOnePrompt", {{0, 4}, {4, 3, 0, 4}, {7, 3, 0, 4}}, 10, 6, 2},
        Layout{"UnequalCompletionsOfOnePrompt", {{0, 4}, {4, 3, 0, 4}, {7, 1, 0, 4}, {8, 5, 0, 4}}, 13, 3, 1},
        Layout{"EmptyCompletions", {{0, 2}, {2, 0, 0, 2}, {2, 3, 0, 2}, {5, 0, 0, 2}}, 5, 2, 2},
        Layout{"AWindow", {{0, 7}, {7, 2}}, 9, 4, 2, {.scale = 0.3, .window = 3}},
        Layout{"AWindowThatReachesIntoThePrompt",
               {{0, 4}, {4, 3, 0, 4}, {7, 6, 0, 4}},
               13,
               3,
               1,
               {.scale = 0.5, .window = 4}},
        Layout{"AWindowOfTwoTokens", {{0, 4}, {4, 3, 0, 4}}, 7, 2, 1, {.scale = 0.5, .window = 2}},
        Layout{"CappedScores", {{0, 4}, {4, 3, 0, 4}, {7, 1, 0, 4}}, 8, 4, 2, {.scale = 0.7, .softcap = 1.5}},
        Layout{"CappedScoresInAWindow", {{0, 5}, {5, 2}}, 7, 4, 4, {.scale = 0.7, .softcap = 2, .window = 2}},
        Layout{"TwoGroupsInterleaved", {{0, 3}, {3, 2, 0, 3}, {5, 1}, {6, 4, 5, 1}, {10, 2, 0, 3}}, 12, 6, 3}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(PackedAttention, ASharedPromptEqualsACopyForEachCompletion) {
  // The packed form: prompt rows 0..3, completions 4..6 and 7..8. Copied: [prompt, 4..6], [prompt, 7..8].
  const Tensor q = random_normal({9, 3, 4}, 1), k = random_normal({9, 3, 4}, 2), v = random_normal({9, 3, 4}, 3);
  constexpr AttentionConfig kRule{.scale = 0.5};
  const Tensor packed = PackedAttention({{0, 4}, {4, 3, 0, 4}, {7, 2, 0, 4}}, 9, 0, at::kCPU)(kRule, q, k, v);
  for (const auto& [rows, length] :
       {std::pair<std::vector<int64_t>, int64_t>{{0, 1, 2, 3, 4, 5, 6}, 7}, {{0, 1, 2, 3, 7, 8}, 6}}) {
    const Tensor index = int64_tensor(rows);
    const Tensor alone = PackedAttention({{0, length}}, length, 0, at::kCPU)(
        kRule, q.index_select(0, index), k.index_select(0, index), v.index_select(0, index));
    EXPECT_LT(largest_difference(packed.index_select(0, index), alone), 1e-6);
  }
}

}  // namespace
}  // namespace keel
