// A full RL step of DPPO with the top 20 tokens: sampling, scoring, one update. On a GPU in bf16, on a CPU in float32:
//   build/bench/bin/rl_step [STALENESS]   Qwen2.5-0.5B, 64 prompts of 512 tokens with 16 completions of 512 each, and
//                                         rollout.staleness; on a CPU the small workload against TRL
//   build/bench/bin/rl_step sizes         Qwen2.5-3B with all weights trained, and Qwen2.5-7B with a rank 16 adapter on
//                                         all linear layers, with activation checkpointing; on a CPU both with the
//                                         small workload

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/even_tokens.h"
#include "bench/median.h"
#include "keel/core/console.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/train/trainer.h"

namespace {

using namespace keel;

struct Workload {
  std::string shape;
  int64_t prompts, samples, prompt_tokens, new_tokens;
  int64_t lora_rank = 0;
  bool recompute = false;
  int64_t staleness = 0;
  int steps = 3;  // measured, after one warm-up step
};

void measure(const Workload& workload, at::Device device) {
  if (device.is_cuda()) at::accelerator::resetPeakStats(device.index());
  Config config;
  config.rollout.samples_per_prompt = workload.samples;
  config.rollout.max_new_tokens = workload.new_tokens;
  config.rollout.staleness = workload.staleness;
  config.objective = {.method = "dppo_topk_tv"};
  config.train.prompts_per_step = workload.prompts;
  config.train.tokens_per_batch = 32768;
  config.record.certificate_every = 0;
  Stopwatch watch(device);
  config.train.recompute_activations = workload.recompute;
  const at::ScalarType type = device.is_cuda() ? at::kBFloat16 : at::kFloat;
  LoadedModel policy = random_model(workload.shape, device, type, workload.lora_rank);
  MasterWeights masters = policy.model.set_compute_type(type);
  const double drawn = watch.lap();
  PromptSources prompt_sources = random_prompt_sources(policy.model.config().vocab_size, workload.prompt_tokens);
  TrainState state;
  Trainer trainer(config, policy, prompt_sources, {.masters = std::move(masters)});
  std::vector<double> rollout, train, whole;
  for (int i = 0; i <= workload.steps; ++i) {
    watch.lap();
    const StepMetrics numbers = trainer.step(state).metrics;
    if (i == 0) continue;
    whole.push_back(watch.lap());
    rollout.push_back(numbers.rollout_seconds);
    train.push_back(numbers.train_seconds);
  }
  std::printf(
      "%s, %s (%s parameters, weights drawn in %.1f s), %s, %ld x %ld completions of %ld tokens: step %.3f s, of which "
      "rollout %.3f, update %.3f; peak %.1f GiB (median of %d)\n",
      describe_device(device).c_str(), workload.shape.c_str(),
      format_count(policy.model.config().parameter_count()).c_str(), drawn,
      workload.lora_rank > 0 ? ("LoRA of rank " + std::to_string(workload.lora_rank)).c_str() : "trained whole",
      static_cast<long>(workload.prompts), static_cast<long>(workload.samples), static_cast<long>(workload.new_tokens),
      median(whole), median(rollout), median(train), static_cast<double>(peak_memory_bytes(device)) / (1 << 30),
      workload.steps);
  std::fflush(stdout);  // the next shape may run out of memory
}

}  // namespace

int main(int argc, char** argv) {
  const bool on_gpu = at::hasCUDA();
  const at::Device device = open_device(on_gpu ? "cuda" : "cpu");
  const std::string word = argc > 1 ? argv[1] : "0";
  Workload workload{.shape = on_gpu ? "0.5B" : "3.2M",
                    .prompts = on_gpu ? 64 : 8,
                    .samples = on_gpu ? 16 : 8,
                    .prompt_tokens = on_gpu ? 512 : 16,
                    .new_tokens = on_gpu ? 512 : 40};
  if (word != "sizes") {
    if (word.find_first_not_of("0123456789") != std::string::npos) {
      std::fprintf(stderr, "%s: expected a number of steps, or sizes\n", word.c_str());
      return 2;
    }
    workload.staleness = std::atol(word.c_str());
    measure(workload, device);
    return 0;
  }
  workload.recompute = true;
  workload.steps = 1;
  if (on_gpu) workload.prompts = workload.samples = 8, workload.prompt_tokens = workload.new_tokens = 256;
  workload.shape = on_gpu ? "3B" : "3.2M";
  measure(workload, device);
  workload.shape = on_gpu ? "7B" : "3.2M";
  workload.lora_rank = 16;
  measure(workload, device);
}
