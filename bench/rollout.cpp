// Sampling on a CPU: milliseconds per step, tokens per second, and the ratio to the lower bound: the larger of the
// weights' bytes at memory bandwidth and the FLOPs at GEMM throughput.
//
//   build/bench/bin/rollout [THREADS]

#include <ATen/ATen.h>

#include <cstdio>
#include <cstdlib>

#include "bench/bench_shape.h"
#include "bench/machine_speed.h"
#include "keel/core/tensor/device.h"
#include "keel/rollout/engine.h"

namespace {

using namespace keel;

void measure(const char* name, int64_t sequences) {
  const at::NoGradGuard no_grad;
  const ModelConfig config = bench_shape(name);
  const Tokenizer tokenizer = bench_vocabulary(config.vocab_size);
  const RolloutEngine engine(SamplingModel({ModelWeights::random(config, 0, {at::kCPU})}), tokenizer);
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
  const double floor =
      std::max(4 * parameters / memory_speed(), 2 * parameters * static_cast<double>(sequences) / product_speed());
  std::printf("%-6s %4ld sequences: %8.2f ms per step, %8.0f tokens/s, lower bound %.2f ms (%.0f %%)\n", name,
              static_cast<long>(sequences), 1e3 * step, static_cast<double>(sequences) / step, 1e3 * floor,
              100 * floor / step);
}

}  // namespace

int main(int argc, char** argv) {
  use_threads(argc > 1 ? std::atoi(argv[1]) : 2);
  for (const int64_t sequences : {1, 16, 64, 256}) measure("3.2M", sequences);
  for (const int64_t sequences : {1, 8, 32}) measure("135M", sequences);
}
