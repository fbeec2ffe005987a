// Keel's side of bench/vs_trl: the workload and the protocol are described in bench/vs_trl/README.md.

#include <ATen/ATen.h>

#include <cstdio>
#include <iostream>
#include <numeric>

#include "keel/core/json.h"
#include "keel/core/random.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/rollout/engine.h"
#include "keel/train/update/optimizer.h"
#include "keel/train/update/policy_update.h"
#include "keel/train/update/token_advantages.h"

namespace {

using namespace keel;

constexpr int64_t kPrompts = 8, kPromptTokens = 16, kSamples = 8, kNewTokens = 40, kVocabulary = 54;

std::vector<Prompt> random_prompts(uint64_t step) {
  std::vector<Prompt> prompts(kPrompts);
  for (int64_t p = 0; p < kPrompts; ++p) {
    prompts[p].id = step * kPrompts + p;
    Draws draws(/*seed=*/1, Stream::kTaskProblems, prompts[p].id);
    for (int64_t i = 0; i < kPromptTokens; ++i)
      prompts[p].tokens.push_back(static_cast<int32_t>(draws.below(kVocabulary)));
  }
  return prompts;
}

double even_fraction(const std::vector<int32_t>& tokens) {
  const auto even = std::count_if(tokens.begin(), tokens.end(), [](int32_t token) { return token % 2 == 0; });
  return static_cast<double>(even) / static_cast<double>(tokens.size());
}

class Worker {
 public:
  Worker()
      : tokenizer_(vocabulary()),
        model_(CausalLm::random(shape(), /*seed=*/0, open_device("cpu"))),
        optimizer_(model_.parameters(), {.lr = 1e-5}),
        objective_(make_objective({.method = "grpo", .aggregation = "token_mean"}, kNewTokens)) {}

  Json step() {
    Stopwatch watch(at::kCPU);
    const std::vector<Prompt> prompts = random_prompts(steps_++);
    std::vector<Rollout> rollouts =
        RolloutEngine(model_, tokenizer_)
            .generate(prompts, {.samples_per_prompt = kSamples, .max_new_tokens = kNewTokens, .stop_at_eos = false});
    std::vector<int64_t> all(rollouts.size());
    int64_t tokens = 0;
    for (Rollout& rollout : rollouts) {
      rollout.reward = even_fraction(rollout.tokens);
      tokens += static_cast<int64_t>(rollout.tokens.size());
    }
    const TokenWorth worth = token_worth(objective_.method.advantage, rollouts, {});
    const double rollout_seconds = watch.lap();
    std::iota(all.begin(), all.end(), 0);
    accumulate_policy_gradients(model_, objective_, /*temperature=*/1.0, /*tokens_per_batch=*/1 << 20,
                                {prompts, rollouts, worth.advantages}, all, [](const auto&...) {});
    optimizer_.step(/*lr=*/1e-5);
    const double train_seconds = watch.lap();
    return {{"seconds", rollout_seconds + train_seconds},
            {"rollout_seconds", rollout_seconds},
            {"train_seconds", train_seconds},
            {"completion_tokens", tokens}};
  }

 private:
  static ModelConfig shape() {
    return model_config({.hidden_size = 256,
                         .layers = 4,
                         .heads = 8,
                         .kv_heads = 4,
                         .intermediate_size = 768,
                         .tie_embeddings = true,
                         .max_positions = 64},
                        kVocabulary);
  }

  static Tokenizer vocabulary() {
    std::vector<std::string> words;
    for (int64_t i = 0; i < kVocabulary; ++i) words.push_back("w" + std::to_string(i));
    return Tokenizer::word_level(words, {});
  }

  Tokenizer tokenizer_;
  CausalLm model_;
  Optimizer optimizer_;
  Objective objective_;
  uint64_t steps_ = 0;
};

}  // namespace

int main() {
  use_threads(2);
  Worker worker;
  worker.step();
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);)
    if (line == "step") std::cout << worker.step().dump() << std::endl;
}
