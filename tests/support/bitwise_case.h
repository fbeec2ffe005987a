#pragma once

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "keel/rollout/engine.h"
#include "keel/train/update/gradients.h"
#include "tests/support/reference_model.h"
#include "tests/support/tiny_rollouts.h"

// With rollout.bitwise, the trainer computes the same bits for a token as the sampler recorded.

namespace keel {

constexpr double kSampledAt = 0.8;

/// Small configurations of all model families. Some sizes are not multiples of the vector width.
inline std::vector<std::pair<const char*, ModelConfig>> bitwise_families() {
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

constexpr ExecutionOptions kBitwise{.bitwise = true};

inline std::vector<Rollout> bitwise_rollouts(const SamplerWeights& model, const std::vector<Prompt>& prompts) {
  const Tokenizer tokenizer = tiny_tokenizer();
  return RolloutEngine(SamplingModel(model), tokenizer)
      .generate(prompts, {.samples_per_prompt = 3,
                          .temperature = kSampledAt,
                          .max_new_tokens = 37,
                          .seed = 3,
                          .max_sequences = 5,
                          .top_k = 4,
                          .hidden_states = true});
}

/// Counts differences in the bits of log-prob, log(1 - p) and entropy between trainer and sampler, and all tokens.
inline std::pair<int64_t, int64_t> different_bits(const SamplerWeights& sampler, const CausalLm& trainer) {
  const std::vector<Prompt> prompts = tiny_prompts();
  const std::vector<Rollout> rollouts = bitwise_rollouts(sampler, prompts);
  std::vector<std::span<const float>> logp, other_logp, entropy;
  for (const Rollout& rollout : rollouts) {
    logp.push_back(rollout.tokens.behavior_logp);
    other_logp.push_back(rollout.tokens.behavior_other_logp);
    entropy.push_back(rollout.tokens.behavior_entropy);
  }
  int64_t different = 0, all = 0;
  for (const int64_t tokens_per_batch : {40, 150, 100000})
    for (const PackedBatch& batch : pack(training_sequences(rollouts), tokens_per_batch, trainer.device())) {
      const TokenStats stats = token_statistics(trainer, batch, kSampledAt);
      different += stats.logp.ne(gather_targets(batch, logp)).sum().item<int64_t>();
      different += stats.other_logp.ne(gather_targets(batch, other_logp)).sum().item<int64_t>();
      different += stats.entropy.ne(gather_targets(batch, entropy)).sum().item<int64_t>();
      all += stats.logp.numel();
    }
  return {different, all};
}

}  // namespace keel
