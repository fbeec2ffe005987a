// One decode step on the CPU, sampling and log-probabilities included: milliseconds, tokens a second, and how far that
// is from the floor, which is the larger of the bytes of the weights at the memory's speed and of the products at the
// speed of a large one.
//
//   build/bench/bin/rollout [THREADS]

#include <ATen/ATen.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "bench/median.h"
#include "keel/core/tensor/device.h"
#include "keel/rollout/engine.h"

namespace {

using namespace keel;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Tokenizer vocabulary(int64_t size) {
  std::vector<std::string> words{"<pad>", "<bos>", "<eos>"};
  while (static_cast<int64_t>(words.size()) < size) words.push_back("w" + std::to_string(words.size()));
  return Tokenizer::word_level(words, {.pad = "<pad>", .bos = "<bos>", .eos = "<eos>"});
}

/// Of reading memory that no cache holds, in bytes a second.
double memory_speed() {
  const Tensor much = at::ones({1 << 26});  // 256 MiB
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) seconds.push_back(seconds_of([&] { much.sum(); }));
  return 4.0 * static_cast<double>(much.numel()) / median(seconds);
}

double product_speed() {
  const Tensor a = at::rand({1024, 1024}), b = at::rand({1024, 1024});
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) seconds.push_back(seconds_of([&] { at::matmul(a, b); }));
  return 2.0 * 1024 * 1024 * 1024 / median(seconds);
}

void measure(const char* name, const ModelOptions& shape, int64_t vocab, int64_t sequences) {
  const at::NoGradGuard no_grad;
  const ModelConfig config = model_config(shape, vocab);
  const Tokenizer tokenizer = vocabulary(vocab);
  const RolloutEngine engine(CausalLm::random(config, 0, at::kCPU), tokenizer);
  std::vector<Prompt> prompts(1);
  prompts[0].tokens.assign(16, 5);
  const auto decode = [&](int64_t tokens) {
    engine.generate(prompts, {.samples_per_prompt = sequences, .max_new_tokens = tokens, .stop_at_eos = false});
  };
  constexpr int64_t kFew = 8, kMany = 40;
  decode(kFew);
  std::vector<double> steps;
  for (int i = 0; i < 5; ++i) {
    const double few = seconds_of([&] { decode(kFew); }), many = seconds_of([&] { decode(kMany); });
    steps.push_back((many - few) / (kMany - kFew));
  }
  const double step = median(steps), parameters = static_cast<double>(config.parameter_count());
  const double floor = std::max(4 * parameters / memory_speed(),
                                2 * parameters * static_cast<double>(sequences) / product_speed());
  std::printf("%-6s %4ld sequences: %8.2f ms a step, %8.0f tokens/s, floor %.2f ms (%.0f %%)\n", name,
              static_cast<long>(sequences), 1e3 * step, static_cast<double>(sequences) / step, 1e3 * floor,
              100 * floor / step);
}

}  // namespace

int main(int argc, char** argv) {
  use_threads(argc > 1 ? std::atoi(argv[1]) : 2);
  const ModelOptions small{.hidden_size = 256, .layers = 4, .heads = 8, .kv_heads = 4, .intermediate_size = 768,
                           .tie_embeddings = true, .max_positions = 64};
  for (const int64_t sequences : {1, 16, 64, 256}) measure("3.2M", small, 54, sequences);
  const ModelOptions smollm{.hidden_size = 576, .layers = 30, .heads = 9, .kv_heads = 3, .intermediate_size = 1536,
                            .tie_embeddings = true, .max_positions = 64};
  for (const int64_t sequences : {1, 8, 32}) measure("135M", smollm, 49152, sequences);
}
