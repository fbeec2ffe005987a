// rollout.bitwise on a GPU: sampling and training give bitwise equal results.

#include <gtest/gtest.h>

#include "keel/core/tensor/device.h"
#include "keel/model/network/packed_forward.h"
#include "keel/ops/deterministic_linear.h"
#include "tests/support/bitwise_case.h"

namespace keel {
namespace {

class GpuBitwise : public testing::TestWithParam<at::ScalarType> {
 protected:
  ModelWeights model(const ModelConfig& config) const {
    ModelWeights result = tiny_model(config, 1, cuda_);
    result.set_compute_type(GetParam());
    return result;
  }
  Tensor random(std::vector<int64_t> shape, uint64_t seed) const {
    return random_normal(shape, seed).to(cuda_).to(GetParam());
  }

  at::Device cuda_ = open_device("cuda");
};

INSTANTIATE_TEST_SUITE_P(Types, GpuBitwise, testing::Values(at::kBFloat16, at::kHalf));

TEST_P(GpuBitwise, MatchesTheFloat64Product) {
  for (const int64_t inputs : {1, 7, 64, 200, 896})
    for (const int64_t outputs : {1, 33, 128, 1000})
      for (const int64_t rows : {1, 16, 130, 2000}) {
        const Tensor x = random({rows, inputs}, 1), weight = random({outputs, inputs}, 2);
        const Tensor want = at::linear(x.to(at::kDouble), weight.to(at::kDouble)),
                     sizes = at::linear(x.abs().to(at::kDouble), weight.abs().to(at::kDouble));
        const Tensor wide = deterministic_linear_to_float32(x, weight);
        EXPECT_LT(((wide - want).abs() / sizes).max().item<double>(), 2e-6)
            << rows << " x " << inputs << " x " << outputs;
        EXPECT_TRUE(deterministic_linear(x, weight).equal(wide.to(GetParam())))
            << rows << " x " << inputs << " x " << outputs;
      }
}

TEST_P(GpuBitwise, RowDoesNotDependOnTheOtherRows) {
  for (const int64_t inputs : {20, 896, 4864}) {
    const Tensor x = random({3000, inputs}, 3), weight = random({1500, inputs}, 4);
    const Tensor all = deterministic_linear(x, weight), wide = deterministic_linear_to_float32(x, weight);
    EXPECT_TRUE(wide.to(GetParam()).equal(all));
    for (const int64_t rows : {1, 31, 64, 257})
      for (const int64_t begin : {int64_t{0}, int64_t{1001}, 3000 - rows}) {
        const Tensor some = x.narrow(0, begin, rows);
        EXPECT_TRUE(deterministic_linear_to_float32(some, weight).equal(wide.narrow(0, begin, rows)))
            << rows << " from " << begin;
        EXPECT_TRUE(
            deterministic_linear(some, weight.narrow(0, 512, 40)).equal(all.narrow(0, begin, rows).narrow(1, 512, 40)))
            << rows << " from " << begin;
      }
  }
}

TEST_P(GpuBitwise, TrainerAndSamplerAreBitwiseEqualForEveryFamily) {
  std::vector<std::pair<const char*, ModelConfig>> shapes = bitwise_families();
  ModelConfig wide = tiny_config(14, 2, true, 64);  // heads with a tensor-core attention kernel
  wide.hidden_size = 896;
  wide.attention_bias = true;
  ModelConfig wider = tiny_config(4, 1, false, 128);
  wider.hidden_size = 256;
  ModelConfig many = tiny_config(16, 1, false, 64);  // more query heads per key head than one tile has
  many.hidden_size = 192;
  ModelConfig gemma = shapes.back().second;  // norms of float32 weights, a window and wide heads
  gemma.num_attention_heads = 4, gemma.num_key_value_heads = 1, gemma.head_dim = 256, gemma.hidden_size = 640;
  shapes.insert(shapes.end(),
                {{"heads of 64", wide}, {"heads of 128", wider}, {"16 heads of 64", many}, {"wide Gemma", gemma}});
  int64_t plainly_different = 0;
  for (const auto& [name, config] : shapes) {
    const ModelWeights plain = model(config);
    const auto [different, all] = different_bits({plain, {}, kBitwise}, {plain, kBitwise});
    EXPECT_EQ(different, 0) << name;
    EXPECT_GT(all, 300) << name;
    plainly_different += different_bits({plain}, plain).first;
  }
  EXPECT_GT(plainly_different, 0) << "without it the bits differ";
}

TEST_P(GpuBitwise, SamplerAppliesTheAdapterLikeTheTrainer) {
  ModelConfig wide = tiny_config(14, 2, true, 64);
  wide.hidden_size = 896;
  for (const ModelConfig& config : {tiny_config(6, 2, false), wide}) {
    ModelWeights adapted = model(config);
    adapted.add_adapter({.rank = 3, .target_modules = {"q_proj", "v_proj", "down_proj"}}, 4);
    for (const NamedTensor& part : adapted.adapter()) part.value.copy_(random_normal(part.value.sizes(), 9) * 0.5);
    adapted.set_compute_type(GetParam());
    const SamplerWeights sampled{adapted, {}, kBitwise};
    EXPECT_EQ(different_bits(sampled, {adapted, kBitwise}).first, 0);
    EXPECT_GT(different_bits(sampled, {adapted.without_adapter(), kBitwise}).first, 300) << "the adapter matters";
  }
}

TEST_P(GpuBitwise, GradientsEqualThoseOfTheDefaultKernels) {
  const std::vector<Prompt> prompts = tiny_prompts();
  ModelConfig config = tiny_config(14, 2, true, 64);
  config.hidden_size = 896;
  const std::vector<Rollout> rollouts = bitwise_rollouts({ModelWeights::random(config, 1, {cuda_})}, prompts);
  const auto gradients = [&](bool same_bits) {
    ModelWeights weights = ModelWeights::random(config, 1, {cuda_});
    weights.set_compute_type(GetParam());
    const GradientSinks sinks(weights.trainable());
    const CausalLm trained(weights, {.bitwise = same_bits});
    for (const PackedBatch& batch : pack(training_sequences(rollouts), 150, cuda_)) {
      const Tensor hidden = packed_hidden_states(trained, batch.tokens, batch.positions, batch.segments);
      (hidden * random_normal(hidden.sizes(), 5).to(cuda_)).sum().backward();
    }
    return sinks.sums();
  };
  const std::vector<Tensor> ours = gradients(true), usual = gradients(false);
  ASSERT_EQ(ours.size(), usual.size());
  ASSERT_GT(ours.size(), 15u);
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_LT(((ours[i] - usual[i]).norm() / usual[i].norm()).item<double>(), 3e-2) << i;
}

}  // namespace
}  // namespace keel
