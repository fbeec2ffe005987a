// Keel's side of bench/vs_trl: the workload and the protocol are described in bench/vs_trl/README.md.

#include <ATen/ATen.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "bench/bench_shape.h"
#include "keel/core/json.h"
#include "keel/core/random.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/train/trainer.h"

namespace {

using namespace keel;

constexpr int64_t kPrompts = 8, kPromptTokens = 16, kSamples = 8, kNewTokens = 40, kVocabulary = 54;

Prompt random_prompt(uint64_t id) {
  Prompt prompt;
  prompt.id = id;
  Draws draws(/*seed=*/1, Stream::kTaskProblems, id);
  for (int64_t i = 0; i < kPromptTokens; ++i) prompt.tokens.push_back(static_cast<int32_t>(draws.below(kVocabulary)));
  return prompt;
}

/// The share of even tokens.
class EvenTokens : public Reward {
 public:
  Scores operator()(std::span<const RewardSample> samples) const override {
    Scores scores;
    for (const RewardSample& sample : samples) {
      const std::vector<int32_t>& tokens = sample.tokens.value();
      const auto even = std::count_if(tokens.begin(), tokens.end(), [](int32_t token) { return token % 2 == 0; });
      scores.rewards.emplace_back(static_cast<double>(even) / static_cast<double>(tokens.size()));
    }
    return scores;
  }
};

Problems random_problems() {
  RewardTerm term;
  term.name = "even";
  term.reward = std::make_unique<EvenTokens>();
  std::vector<RewardTerm> terms;
  terms.push_back(std::move(term));
  return {PromptStream([](uint64_t id) { return random_prompt(id); }), RewardSum(std::move(terms), OnError::kStop)};
}

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

LoadedModel random_model() {
  std::vector<std::string> words;
  for (int64_t i = 0; i < kVocabulary; ++i) words.push_back("w" + std::to_string(i));
  // Without a token that ends: all completions have the same length.
  return {.model = CausalLm::random(bench_shape("3.2M"), /*seed=*/0, open_device("cpu")),
          .tokenizer = Tokenizer::word_level(words, {})};
}

}  // namespace

int main() {
  use_threads(2);
  const Config config = workload();
  const LoadedModel policy = random_model();
  Problems problems = random_problems();
  TrainState state;
  Trainer trainer(config, policy, problems, state);
  trainer.step(state);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (line != "step") continue;
    Stopwatch watch(at::kCPU);
    const StepNumbers numbers = trainer.step(state).numbers;
    const Json row = {{"seconds", watch.lap()},
                      {"rollout_seconds", numbers.rollout_seconds + numbers.reward_seconds},
                      {"train_seconds", numbers.train_seconds},
                      {"completion_tokens", static_cast<int64_t>(numbers.sampled_tokens)}};
    std::cout << row.dump() << std::endl;
  }
}
