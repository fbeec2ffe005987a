// Sampling with an adapter: merged into the weights once per policy version, or applied separately in every layer.
// build/bench/bin/lora [cpu|cuda]

#include <cstdio>

#include "bench/machine_speed.h"
#include "bench/median.h"
#include "keel/core/tensor/device.h"
#include "keel/rollout/engine.h"

namespace {

using namespace keel;

/// The shape of SmolLM2-135M, with random weights.
ModelConfig shape() {
  ModelConfig config;
  config.vocab_size = 49152;
  config.hidden_size = 576;
  config.intermediate_size = 1536;
  config.num_hidden_layers = 30;
  config.num_attention_heads = 9;
  config.num_key_value_heads = 3;
  config.head_dim = 64;
  config.max_position_embeddings = 2048;
  config.tie_word_embeddings = true;
  return config;
}

}  // namespace

int main(int argc, char** argv) {
  const at::Device device = open_device(argc > 1 ? argv[1] : "cpu");
  ModelWeights model = ModelWeights::random(shape(), 1, device);
  model.add_adapter({.rank = 16}, 2);
  const Tokenizer tokenizer = Tokenizer::word_level({"a", "b"}, {});
  std::vector<Prompt> prompts(4);
  for (size_t i = 0; i < prompts.size(); ++i) {
    prompts[i].id = i;
    prompts[i].tokens.assign(32, static_cast<int32_t>(i + 5));
  }
  const auto sample = [&](const ModelWeights& weights, bool apart = false) {
    RolloutEngine(SamplingModel({weights, {}, {.separate_adapter = apart}}), tokenizer)
        .generate(prompts, {.samples_per_prompt = 4, .max_new_tokens = 32, .stop_at_eos = false});
  };
  constexpr int kRounds = 7;
  std::vector<double> merging, merged, on_the_fly;
  sample(model);
  for (int i = 0; i < kRounds; ++i) {
    on_the_fly.push_back(seconds_of([&] { sample(model, /*apart=*/true); }));
    ModelWeights weights = model;
    merging.push_back(seconds_of([&] {
      weights = model.merged({});
      if (device.is_cuda()) weights.head().value().cpu();  // waits for the device
    }));
    merged.push_back(seconds_of([&] { sample(weights); }));
  }
  std::printf("%s, 16 completions of 32 tokens, rank 16: unmerged %.2f s; merged %.2f s + %.2f s to merge = %.2fx\n",
              describe_device(device).c_str(), median(on_the_fly), median(merged), median(merging),
              median(on_the_fly) / (median(merged) + median(merging)));
}
