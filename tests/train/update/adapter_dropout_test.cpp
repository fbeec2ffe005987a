// Dropout on adapter inputs in updates: independent of micro-batches, and off without gradients.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "keel/train/update/gradients.h"
#include "tests/support/reference_model.h"
#include "tests/support/tiny_rollouts.h"

namespace keel {
namespace {

/// Eight completions of three prompts.
class AdapterDropoutUpdate : public testing::Test {
 protected:
  AdapterDropoutUpdate() {
    for (size_t i = 0; i < completions_.size(); ++i)
      sequences_.push_back({prompts_[prompt_of_[i]].tokens, completions_[i], prompt_of_[i], static_cast<int64_t>(i)});
    model_.add_adapter({.rank = 3}, /*seed=*/3);
    uint64_t seed = 50;
    for (const NamedTensor& weight : model_.adapter())
      weight.value.add_(random_normal(weight.value.sizes(), ++seed) * 0.3);
  }

  /// The gradients of the likelihood of all sequences, in this order and in batches of at most this many tokens.
  Tensor gradient(double share, uint64_t update, int64_t max_tokens, bool backwards = false) const {
    const GradientSinks gradients(model_.trainable());
    std::vector<TrainingSequence> sequences = sequences_;
    if (backwards) std::reverse(sequences.begin(), sequences.end());
    const UpdateOptions pass{.dropout = {.probability = share, .seed = 5, .update = update}};
    for (const PackedBatch& batch : pack(sequences, max_tokens, at::kCPU))
      accumulate_gradients(model_, batch, pass, Scope::kToken, [](const TokenStats& stats, int64_t, int64_t) {
        return HeadCoefficients{at::ones_like(stats.logp), {}};
      });
    std::vector<Tensor> all;
    for (const Tensor& sum : gradients.sums()) all.push_back(sum.flatten());
    return at::cat(all);
  }

  ModelWeights model_ = tiny_model(tiny_config(6, 2, false));
  std::vector<Prompt> prompts_ = tiny_prompts();
  std::vector<int64_t> prompt_of_{0, 0, 0, 2, 2, 0, 4, 4};
  std::vector<std::vector<int32_t>> completions_{{3, 4, 5, 2},       {6, 3},  {4, 2}, {10, 9, 2},
                                                 {3, 3, 3, 3, 3, 2}, {0, 10}, {5, 2}, {7, 8, 9}};
  std::vector<TrainingSequence> sequences_;
};

TEST_F(AdapterDropoutUpdate, DoesNotDependOnMicroBatches) {
  const Tensor whole = gradient(0.3, 7, 1000);
  EXPECT_GT(relative_difference(whole, gradient(0, 7, 1000)), 0.1) << "nothing was left out";
  for (const int64_t max_tokens : {1, 12, 20, 30})
    EXPECT_LT(relative_difference(gradient(0.3, 7, max_tokens), whole), 2e-6) << max_tokens;
  EXPECT_LT(relative_difference(gradient(0.3, 7, 20, /*backwards=*/true), whole), 2e-6);
}

TEST_F(AdapterDropoutUpdate, IsReproducibleAndChangesWithTheUpdate) {
  EXPECT_TRUE(gradient(0.3, 7, 20).equal(gradient(0.3, 7, 20)));
  EXPECT_GT(relative_difference(gradient(0.3, 8, 20), gradient(0.3, 7, 20)), 0.1);
  EXPECT_TRUE(gradient(0, 7, 20).equal(gradient(0, 8, 20)));
}

}  // namespace
}  // namespace keel
