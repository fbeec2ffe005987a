#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "keel/model/network/packed_forward.h"
#include "tests/support/bitwise_case.h"

namespace keel {
namespace {

TEST(Bitwise, TrainerAndSamplerHaveTheSameBitsForEveryFamily) {
  int64_t different_by_default = 0;
  for (const auto& [name, config] : bitwise_families()) {
    const ModelWeights model = tiny_model(config);
    const auto [different, all] = different_bits({model, {}, kBitwise}, {model, kBitwise});
    EXPECT_EQ(different, 0) << name;
    EXPECT_GT(all, 300) << name;
    different_by_default += different_bits({model}, model).first;
  }
  EXPECT_GT(different_by_default, 0) << "without rollout.bitwise the bits differ";
}

TEST(Bitwise, SamplerAppliesTheAdapterAsTheTrainerDoes) {
  ModelWeights model = tiny_model(tiny_config(6, 2, false));
  model.add_adapter({.rank = 3, .target_modules = {"q_proj", "v_proj", "down_proj"}}, 4);
  for (const NamedTensor& tensor : model.adapter()) tensor.value.copy_(random_normal(tensor.value.sizes(), 9) * 0.5);
  const SamplerWeights sampled{model, {}, kBitwise};
  EXPECT_EQ(different_bits(sampled, {model, kBitwise}).first, 0);
  EXPECT_GT(different_bits({model}, model).first, 0);
  EXPECT_GT(different_bits(sampled, {model.without_adapter(), kBitwise}).first, 300) << "the adapter changes the bits";
}

TEST(Bitwise, GradientsEqualThoseWithoutBitwise) {
  const std::vector<Prompt> prompts = tiny_prompts();
  for (const auto& [name, config] : bitwise_families()) {
    const auto gradients = [&](bool same_bits) {
      const CausalLm model(tiny_model(config), {.bitwise = same_bits});
      const GradientSinks sinks(model.weights().trainable());
      const std::vector<Rollout> rollouts = bitwise_rollouts({tiny_model(config)}, prompts);
      for (const PackedBatch& batch : pack(training_sequences(rollouts), 150, at::kCPU)) {
        const Tensor hidden = packed_hidden_states(model, batch.tokens, batch.positions, batch.segments);
        (hidden * random_normal(hidden.sizes(), 5)).sum().backward();
      }
      std::vector<Tensor> result = sinks.sums();
      if (!config.tie_word_embeddings) result.pop_back();  // gradient of the unused head
      return result;
    };
    const std::vector<Tensor> ours = gradients(true), usual = gradients(false);
    ASSERT_EQ(ours.size(), usual.size());
    ASSERT_GT(ours.size(), 15u);
    for (size_t i = 0; i < ours.size(); ++i) {
      const double scale = usual[i].abs().max().item<double>();
      EXPECT_LT(largest_difference(ours[i], usual[i]), 1e-5 * scale) << name << " " << i;
      EXPECT_GT(scale, 0) << name << " " << i;
    }
  }
}

TEST(Bitwise, TotalVariationAtEqualWeightsIsZero) {
  const ModelWeights model = tiny_model(tiny_config(6, 2, false));
  const std::vector<Prompt> prompts = tiny_prompts();
  const std::vector<Rollout> rollouts = bitwise_rollouts({model, {}, kBitwise}, prompts);
  for (const PackedBatch& batch : pack(training_sequences(rollouts), 150, at::kCPU)) {
    std::vector<Tensor> states;
    for (const int64_t sequence : batch.sequences) states.push_back(rollouts[sequence].tokens.hidden_states);
    const TokenStats stats = token_statistics({model, kBitwise}, batch, kSampledAt,
                                              {.hidden = at::cat(states), .weight = model.head().value()});
    EXPECT_EQ(stats.full_tv.max().item<double>(), 0);
    EXPECT_EQ(stats.full_kl.abs().max().item<double>(), 0);
  }
}

}  // namespace
}  // namespace keel
