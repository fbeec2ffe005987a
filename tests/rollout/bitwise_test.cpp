#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "keel/model/network/packed_forward.h"
#include "keel/rollout/engine.h"
#include "keel/train/update/gradients.h"
#include "tests/support/errors.h"
#include "tests/support/reference_model.h"
#include "tests/support/tiny_rollouts.h"

// rollout.bitwise: what the trainer computes of a token is what the sampler recorded of it, to the last bit.

namespace keel {
namespace {

constexpr double kTemperature = 0.8;

/// What families differ by, all small; widths and sizes that no vector divides among them.
std::vector<std::pair<const char*, ModelConfig>> families() {
  ModelConfig llama = tiny_config(6, 2, false), qwen2 = tiny_config(3, 1, true, 20),
              qwen3 = tiny_config(4, 4, false, 64);
  qwen2.attention_bias = true;
  qwen3.query_key_norm = true;
  qwen3.hidden_size = 70;
  ModelConfig gemma2 = tiny_config(4, 2, true, 8);
  gemma2.norm_plus_one = gemma2.norm_after = gemma2.scaled_embedding = true;
  gemma2.attention_softcap = 5;
  gemma2.logit_softcap = 3;
  gemma2.sliding_window = 7;
  gemma2.sliding = {true, false};
  gemma2.activation = Activation::kGeluTanh;
  ModelConfig gemma3 = gemma2;
  gemma3.attention_softcap = gemma3.logit_softcap = 0;
  gemma3.query_key_norm = true;
  gemma3.sliding_rope = gemma3.rope;
  gemma3.sliding_rope->theta = 17;
  return {{"llama", llama}, {"qwen2", qwen2}, {"qwen3", qwen3}, {"gemma2", gemma2}, {"gemma3", gemma3}};
}

CausalLm bitwise(CausalLm model) {
  model.make_bitwise();
  return model;
}

std::vector<Rollout> rollouts_of(const CausalLm& model, const std::vector<Prompt>& prompts) {
  const Tokenizer tokenizer = tiny_tokenizer();
  return RolloutEngine(model, tokenizer)
      .generate(prompts, {.samples_per_prompt = 3,
                          .temperature = kTemperature,
                          .max_new_tokens = 37,
                          .seed = 3,
                          .max_sequences = 5,
                          .top_k = 4,
                          .hidden_states = true});
}

/// Tokens whose log-probability, or log(1 - p) or entropy, the trainer and the sampler have other bits of; all tokens.
std::pair<int64_t, int64_t> different_bits(const CausalLm& sampler, const CausalLm& trainer) {
  const std::vector<Prompt> prompts = tiny_prompts();
  const std::vector<Rollout> rollouts = rollouts_of(sampler, prompts);
  std::vector<std::span<const float>> logp, other_logp, entropy;
  for (const Rollout& rollout : rollouts) {
    logp.push_back(rollout.behavior_logp);
    other_logp.push_back(rollout.behavior_other_logp);
    entropy.push_back(rollout.behavior_entropy);
  }
  int64_t different = 0, all = 0;
  for (const int64_t tokens_per_batch : {40, 150, 100000})
    for (const PackedBatch& batch : pack(training_sequences(prompts, rollouts), tokens_per_batch, at::kCPU)) {
      const TokenStats stats = token_statistics(trainer, batch, kTemperature);
      different += stats.logp.ne(gather_targets(batch, logp)).sum().item<int64_t>();
      different += stats.other_logp.ne(gather_targets(batch, other_logp)).sum().item<int64_t>();
      different += stats.entropy.ne(gather_targets(batch, entropy)).sum().item<int64_t>();
      all += stats.logp.numel();
    }
  return {different, all};
}

TEST(Bitwise, TrainerAndSamplerHaveTheSameBitsForEveryFamily) {
  int64_t plainly_different = 0;
  for (const auto& [name, config] : families()) {
    const CausalLm model = tiny_model(config);
    const auto [different, all] = different_bits(bitwise(model), bitwise(model));
    EXPECT_EQ(different, 0) << name;
    EXPECT_GT(all, 300) << name;
    plainly_different += different_bits(model, model).first;
  }
  EXPECT_GT(plainly_different, 0) << "without it the bits differ";
}

TEST(Bitwise, AnAdapterIsAppliedAsInTraining) {
  CausalLm model = tiny_model(tiny_config(6, 2, false));
  model.add_adapter({.rank = 3, .target_modules = {"q_proj", "v_proj", "down_proj"}}, 4);
  {
    const at::NoGradGuard no_grad;
    for (const NamedTensor& tensor : model.adapter()) tensor.value.copy_(random_normal(tensor.value.sizes(), 9) * 0.5);
  }
  EXPECT_EQ(different_bits(bitwise(model), bitwise(model)).first, 0);
  EXPECT_GT(different_bits(model, model).first, 0);
  EXPECT_GT(different_bits(bitwise(model), bitwise(model.without_adapter())).first, 300) << "the adapter matters";
}

TEST(Bitwise, GradientsAreThoseOfTheUsualWay) {
  const std::vector<Prompt> prompts = tiny_prompts();
  for (const auto& [name, config] : families()) {
    const auto gradients = [&](bool same_bits) {
      const CausalLm model = same_bits ? bitwise(tiny_model(config)) : tiny_model(config);
      const std::vector<Rollout> rollouts = rollouts_of(tiny_model(config), prompts);
      for (const PackedBatch& batch : pack(training_sequences(prompts, rollouts), 150, at::kCPU)) {
        const Tensor hidden = packed_hidden_states(model, batch.tokens, batch.positions, batch.segments);
        (hidden * random_normal(hidden.sizes(), 5)).sum().backward();
      }
      std::vector<Tensor> result;
      for (const NamedTensor& parameter : model.parameters())
        if (parameter.value.grad().defined()) result.push_back(parameter.value.grad());
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
  const CausalLm model = bitwise(tiny_model(tiny_config(6, 2, false)));
  const std::vector<Prompt> prompts = tiny_prompts();
  const std::vector<Rollout> rollouts = rollouts_of(model, prompts);
  for (const PackedBatch& batch : pack(training_sequences(prompts, rollouts), 150, at::kCPU)) {
    std::vector<Tensor> states;
    for (const int64_t sequence : batch.sequences) states.push_back(rollouts[sequence].hidden_states);
    const TokenStats stats =
        token_statistics(model, batch, kTemperature, {.hidden = at::cat(states), .weight = model.head().detach()});
    EXPECT_EQ(stats.full_tv.max().item<double>(), 0);
    EXPECT_EQ(stats.full_kl.abs().max().item<double>(), 0);
  }
}

}  // namespace
}  // namespace keel
