// Keel's side of bench/vs_generate: repeatedly samples completions of the same length as Hugging Face's generate.
//
//   vs_generate_keel SHAPE SEQUENCES PROMPT_TOKENS NEW_TOKENS FOLDER THREADS DEVICE
//
// writes its random weights to FOLDER for the other side, prints "ready" with the machine's speeds, and samples once
// for every line "step".

#include <ATen/ATen.h>

#include <cstdlib>
#include <iostream>
#include <optional>

#include "bench/bench_shape.h"
#include "bench/machine_speed.h"
#include "keel/core/json.h"
#include "keel/core/tensor/device.h"
#include "keel/model/folder/model_folder.h"
#include "keel/rollout/engine.h"

int main(int argc, char** argv) {
  using namespace keel;
  if (argc != 8) {
    std::cerr << "expected SHAPE SEQUENCES PROMPT_TOKENS NEW_TOKENS FOLDER THREADS DEVICE\n";
    return 2;
  }
  use_threads(std::atoi(argv[6]));
  const at::NoGradGuard no_grad;
  const ModelConfig config = bench_shape(argv[1]);
  const Tokenizer tokenizer = bench_vocabulary(config.vocab_size);
  const at::Device device = open_device(argv[7]);
  ModelWeights model = ModelWeights::random(config, 0, {device});
  write_model_folder(argv[5], model, tokenizer, Json::object(), {});
  if (device.is_cuda()) model.set_compute_type(at::kBFloat16);
  const int64_t sequences = std::atol(argv[2]), prompt_tokens = std::atol(argv[3]), tokens = std::atol(argv[4]);
  // Different prompts, since the other side does not share prompts.
  std::vector<Prompt> prompts(sequences);
  for (int64_t i = 0; i < sequences; ++i) {
    prompts[i].id = static_cast<uint64_t>(i);
    for (int64_t t = 0; t < prompt_tokens; ++t)
      prompts[i].tokens.push_back(static_cast<int32_t>(3 + (i * 7 + t * 5) % 50));
  }
  double laying_out = 0;  // seconds of the last call
  const auto sample = [&](uint64_t seed) {
    // Packs the weights for sampling each time, since training changes them before every batch.
    std::optional<RolloutEngine> engine;
    laying_out = seconds_of([&] { engine.emplace(SamplingModel({model}), tokenizer); });
    return engine->generate(prompts, {.max_new_tokens = tokens, .stop_at_eos = false, .seed = seed});
  };
  sample(0);
  std::cout << "ready "
            << Json{{"parameters", config.parameter_count()},
                    {"memory_bytes_a_second", memory_speed()},
                    {"operations_a_second", product_speed()}}
                   .dump()
            << std::endl;
  std::string line;
  for (uint64_t seed = 1; std::getline(std::cin, line); ++seed) {
    int64_t sampled = 0;
    const double seconds = seconds_of([&] {
      for (const Rollout& rollout : sample(seed)) sampled += static_cast<int64_t>(rollout.tokens.size());
    });
    std::cout << Json{{"seconds", seconds}, {"laying_out", laying_out}, {"tokens", sampled}}.dump() << std::endl;
  }
}
