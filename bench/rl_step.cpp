// One whole RL step of DPPO with the top 20 tokens: sampling, scoring, one update. On a GPU in bf16 with the shape of
// Qwen2.5-0.5B, 64 prompts of 512 tokens and 16 completions of 512 each; on a CPU the small workload against TRL:
// build/bench/bin/rl_step [STALENESS], how many steps the sampler is behind

#include <ATen/ATen.h>

#include <cstdio>
#include <cstdlib>

#include "bench/even_tokens.h"
#include "bench/median.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/train/trainer.h"

int main(int argc, char** argv) {
  using namespace keel;
  const bool on_gpu = at::hasCUDA();
  const at::Device device = open_device(on_gpu ? "cuda" : "cpu");
  const std::string shape = on_gpu ? "0.5B" : "3.2M";
  const int64_t prompts = on_gpu ? 64 : 8, samples = on_gpu ? 16 : 8, prompt_tokens = on_gpu ? 512 : 16,
                new_tokens = on_gpu ? 512 : 40;
  Config config;
  config.rollout.samples_per_prompt = samples;
  config.rollout.max_new_tokens = new_tokens;
  config.rollout.staleness = argc > 1 ? std::atol(argv[1]) : 0;
  config.objective = {.method = "dppo_topk_tv"};
  config.train.prompts_per_step = prompts;
  config.train.tokens_per_batch = 32768;
  config.record.certificate_every = 0;
  LoadedModel policy = random_model(shape, device);
  if (on_gpu) policy.model.compute_in(at::kBFloat16);
  Problems problems = random_problems(policy.model.config().vocab_size, prompt_tokens);
  TrainState state;
  Trainer trainer(config, policy, problems, state);
  std::vector<double> rollout, train, whole;
  for (int i = 0; i < 4; ++i) {
    Stopwatch watch(device);
    const StepNumbers numbers = trainer.step(state).numbers;
    if (i == 0) continue;
    whole.push_back(watch.lap());
    rollout.push_back(numbers.rollout_seconds);
    train.push_back(numbers.train_seconds);
  }
  std::printf(
      "%s, %s, %ld x %ld completions of %ld tokens: step %.3f s, of which rollout %.3f, update %.3f; peak %.1f GiB "
      "(median of 3)\n",
      describe_device(device).c_str(), shape.c_str(), static_cast<long>(prompts), static_cast<long>(samples),
      static_cast<long>(new_tokens), median(whole), median(rollout), median(train),
      static_cast<double>(peak_memory_bytes(device)) / (1 << 30));
}
