#include "keel/train/update/packing.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensors.h"

namespace keel {
namespace {

using Tokens = std::vector<int32_t>;
using Numbers = std::vector<double>;

/// Sequences that own the tokens of their spans.
struct Sequences {
  struct Text {
    Tokens prompt, completion;
    int64_t prompt_id;
  };
  explicit Sequences(std::vector<Text> all) : texts(std::move(all)) {
    for (const Text& text : texts) spans.push_back({text.prompt, text.completion, text.prompt_id});
  }
  std::vector<Text> texts;
  std::vector<TrainingSequence> spans;
};

std::vector<std::vector<int64_t>> rows_of(const std::vector<Segment>& segments) {
  std::vector<std::vector<int64_t>> result;
  for (const Segment& s : segments) result.push_back({s.begin, s.length, s.prefix_begin, s.prefix_length});
  return result;
}

TEST(Pack, PacksThreeCompletionsOfTwoPrompts) {
  const Sequences sequences({{{1, 3, 4}, {5, 6, 2}, 0}, {{1, 3, 4}, {7}, 0}, {{1, 8}, {9, 2}, 6}});
  const std::vector<PackedBatch> batches = pack(sequences.spans, 100, at::kCPU);
  ASSERT_EQ(batches.size(), 1u);
  const PackedBatch& batch = batches[0];
  // The first prompt is packed once; the last token of a completion is not packed.
  EXPECT_EQ(to_vector(batch.tokens), (Numbers{1, 3, 4, 5, 6, 1, 8, 9}));
  EXPECT_EQ(to_vector(batch.positions), (Numbers{0, 1, 2, 3, 4, 0, 1, 2}));
  EXPECT_EQ(to_vector(batch.logits_indices), (Numbers{2, 3, 4, 2, 6, 7}));
  EXPECT_EQ(to_vector(batch.targets), (Numbers{5, 6, 2, 7, 9, 2}));
  EXPECT_EQ(batch.sequences, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(batch.lengths, (std::vector<int64_t>{3, 1, 2}));
  EXPECT_EQ(batch.target_count(), 6);
  EXPECT_EQ(rows_of(batch.segments),
            (std::vector<std::vector<int64_t>>{{0, 3, 0, 0}, {3, 2, 0, 3}, {5, 0, 0, 3}, {5, 2, 0, 0}, {7, 1, 5, 2}}));
}

TEST(Pack, SharesThePromptOfInterleavedGroups) {
  const Sequences sequences({{{1, 3}, {4, 5}, 0}, {{1}, {6, 7}, 1}, {{1, 3}, {8, 9}, 0}});
  const std::vector<PackedBatch> batches = pack(sequences.spans, 100, at::kCPU);
  ASSERT_EQ(batches.size(), 1u);
  // Completions of a prompt are contiguous; targets keep the order of the sequences.
  EXPECT_EQ(to_vector(batches[0].tokens), (Numbers{1, 3, 4, 8, 1, 6}));
  EXPECT_EQ(to_vector(batches[0].positions), (Numbers{0, 1, 2, 2, 0, 1}));
  EXPECT_EQ(to_vector(batches[0].logits_indices), (Numbers{1, 2, 4, 5, 1, 3}));
  EXPECT_EQ(to_vector(batches[0].targets), (Numbers{4, 5, 6, 7, 8, 9}));
}

TEST(Pack, PutsSharedPromptsBeforeTheirCompletions) {
  const Sequences sequences(
      {{{1, 3}, {4, 5}, 0}, {{2}, {6, 7}, 1}, {{8, 9}, {5, 5}, 2}, {{1, 3}, {8, 9}, 0}, {{2}, {3, 4, 5}, 1}});
  const std::vector<PackedBatch> batches = pack(sequences.spans, 100, at::kCPU);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(to_vector(batches[0].tokens), (Numbers{1, 3, 2, 4, 8, 6, 3, 4, 8, 9, 5}));
  EXPECT_EQ(to_vector(batches[0].positions), (Numbers{0, 1, 0, 2, 2, 1, 1, 2, 0, 1, 2}));
  EXPECT_EQ(to_vector(batches[0].logits_indices), (Numbers{1, 3, 2, 5, 9, 10, 1, 4, 2, 6, 7}));
  EXPECT_EQ(rows_of(batches[0].segments), (std::vector<std::vector<int64_t>>{{0, 2, 0, 0},
                                                                             {2, 1, 0, 0},
                                                                             {3, 1, 0, 2},
                                                                             {4, 1, 0, 2},
                                                                             {5, 1, 2, 1},
                                                                             {6, 2, 2, 1},
                                                                             {8, 2, 0, 0},
                                                                             {10, 1, 8, 2}}));
}

TEST(Pack, DoesNotShareEqualPromptsWithDifferentIds) {
  const Sequences sequences({{{1, 3}, {4}, 0}, {{1, 3}, {4}, 1}});
  EXPECT_EQ(pack(sequences.spans, 100, at::kCPU)[0].tokens.size(0), 4);
}

TEST(Pack, FillsABatchToTheLimitAndRepeatsThePromptInTheNext) {
  // The prompt has 3 tokens and each completion adds 2: two of them make 7, a third would make 9.
  const Sequences sequences({{{1, 3, 4}, {5, 6, 2}, 0}, {{1, 3, 4}, {7, 8, 2}, 0}, {{1, 3, 4}, {9, 5, 2}, 0}});
  for (const auto& [limit, sizes] : {std::pair<int64_t, std::vector<int64_t>>{9, {9}},
                                     {8, {7, 5}},
                                     {7, {7, 5}},
                                     {6, {5, 5, 5}},
                                     {5, {5, 5, 5}},
                                     {1, {5, 5, 5}}}) {
    const std::vector<PackedBatch> batches = pack(sequences.spans, limit, at::kCPU);
    std::vector<int64_t> got;
    std::vector<int64_t> order;
    Numbers targets;
    for (const PackedBatch& batch : batches) {
      got.push_back(batch.tokens.size(0));
      EXPECT_TRUE(got.back() <= limit || batch.sequences.size() == 1);
      order.insert(order.end(), batch.sequences.begin(), batch.sequences.end());
      const Numbers mine = to_vector(batch.targets);
      targets.insert(targets.end(), mine.begin(), mine.end());
    }
    EXPECT_EQ(got, sizes) << limit;
    EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2})) << limit;
    EXPECT_EQ(targets, (Numbers{5, 6, 2, 7, 8, 2, 9, 5, 2})) << limit;
  }
}

TEST(Pack, KeepsEmptyCompletionsWithoutTargets) {
  const Sequences sequences({{{1, 3}, {}, 0}, {{1, 3}, {4}, 0}, {{1, 5}, {}, 1}});
  const std::vector<PackedBatch> batches = pack(sequences.spans, 100, at::kCPU);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(to_vector(batches[0].tokens), (Numbers{1, 3, 1, 5}));
  EXPECT_EQ(to_vector(batches[0].logits_indices), (Numbers{1}));
  EXPECT_EQ(batches[0].lengths, (std::vector<int64_t>{0, 1, 0}));
  EXPECT_TRUE(pack({}, 100, at::kCPU).empty());
}

TEST(Pack, UsesOnlyTrainedTokensAsTargets) {
  const Tokens prompt{1, 3}, completion{4, 5, 6, 7, 8};
  const std::vector<uint8_t> trained{1, 0, 0, 1, 1};
  const std::vector<TrainingSequence> sequences{
      {.prompt = prompt, .completion = completion, .prompt_id = 0, .id = 0, .loss_mask = trained},
      {.prompt = prompt, .completion = completion, .prompt_id = 1, .id = 1}};
  const std::vector<PackedBatch> batches = pack(sequences, 100, at::kCPU);
  ASSERT_EQ(batches.size(), 1u);
  // Masked tokens are still context.
  EXPECT_EQ(to_vector(batches[0].tokens), (Numbers{1, 3, 4, 5, 6, 7, 1, 3, 4, 5, 6, 7}));
  EXPECT_EQ(to_vector(batches[0].targets), (Numbers{4, 7, 8, 4, 5, 6, 7, 8}));
  EXPECT_EQ(to_vector(batches[0].logits_indices), (Numbers{1, 4, 5, 7, 8, 9, 10, 11}));
  EXPECT_EQ(batches[0].lengths, (std::vector<int64_t>{3, 5}));
}

TEST(PerTargetValues, FollowTheOrderOfTheBatchsTargets) {
  const Sequences sequences({{{1}, {4, 5}, 0}, {{1}, {6}, 0}, {{1}, {7, 8, 9}, 0}});
  const std::vector<float> first{1, 2}, second{3}, third{4, 5, 6};
  Numbers repeated, gathered;
  for (const PackedBatch& batch : pack(sequences.spans, 3, at::kCPU)) {
    const std::vector<double> per_sequence{0.5, -1.5, 2.5};
    for (const double x : to_vector(repeat_per_target(batch, per_sequence))) repeated.push_back(x);
    for (const double x : to_vector(gather_targets(batch, {first, second, third}))) gathered.push_back(x);
  }
  EXPECT_EQ(repeated, (Numbers{0.5, 0.5, -1.5, 2.5, 2.5, 2.5}));
  EXPECT_EQ(gathered, (Numbers{1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace keel
