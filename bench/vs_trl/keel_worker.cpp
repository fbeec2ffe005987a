// Keel's side of bench/vs_trl: the workload and the protocol are described in bench/vs_trl/README.md.

#include <ATen/ATen.h>

#include <iostream>

#include "bench/even_tokens.h"
#include "keel/core/json.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/train/trainer.h"

namespace {

using namespace keel;

constexpr int64_t kPrompts = 8, kPromptTokens = 16, kSamples = 8, kNewTokens = 40;

Config workload() {
  Config config;
  config.rollout.samples_per_prompt = kSamples;
  config.rollout.max_new_tokens = kNewTokens;
  config.objective = {.method = "grpo", .aggregation = "token_mean"};
  config.optimizer.lr = 1e-5;
  config.train.prompts_per_step = kPrompts;
  config.train.tokens_per_batch = 1 << 20;
  config.record.certificate_every = 0;
  return config;
}

}  // namespace

int main() {
  use_threads(2);
  const Config config = workload();
  const LoadedModel policy = random_model("3.2M", open_device("cpu"), at::kFloat);
  PromptSources prompt_sources = random_prompt_sources(policy.model.config().vocab_size, kPromptTokens);
  TrainState state;
  Trainer trainer(config, policy, prompt_sources);
  trainer.step(state);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (line != "step") continue;
    Stopwatch watch(at::kCPU);
    const StepMetrics numbers = trainer.step(state).metrics;
    const Json row = {{"seconds", watch.lap()},
                      {"rollout_seconds", numbers.rollout_seconds + numbers.reward_seconds},
                      {"train_seconds", numbers.train_seconds},
                      {"completion_tokens", static_cast<int64_t>(numbers.sampled_tokens)}};
    std::cout << row.dump() << std::endl;
  }
}
