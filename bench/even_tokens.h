#pragma once

#include <algorithm>
#include <memory>

#include "bench/bench_shape.h"
#include "keel/core/random.h"
#include "keel/train/start/prompt_sources.h"

// A task for models with random weights: prompts of random tokens; the reward is the fraction of even tokens.

/// The fraction of even token ids.
class EvenTokens : public keel::Reward {
 public:
  keel::Scores operator()(std::span<const keel::RewardSample> samples) const override {
    keel::Scores scores;
    for (const keel::RewardSample& sample : samples) {
      const std::vector<int32_t>& tokens = sample.tokens.value();
      const auto even = std::count_if(tokens.begin(), tokens.end(), [](int32_t token) { return token % 2 == 0; });
      scores.rewards.emplace_back(static_cast<double>(even) / static_cast<double>(tokens.size()));
    }
    return scores;
  }
};

/// An endless stream of random prompts of `prompt_tokens` tokens.
inline keel::PromptSources random_prompt_sources(int64_t vocab_size, int64_t prompt_tokens) {
  keel::RewardTerm term;
  term.name = "even";
  term.reward = std::make_unique<EvenTokens>();
  std::vector<keel::RewardTerm> terms;
  terms.push_back(std::move(term));
  const auto prompt = [=](uint64_t id) {
    keel::Prompt result;
    result.id = id;
    keel::RandomSequence draws(/*seed=*/1, keel::Stream::kTaskProblems, id);
    for (int64_t i = 0; i < prompt_tokens; ++i)
      result.tokens.push_back(static_cast<int32_t>(draws.below(static_cast<uint64_t>(vocab_size))));
    return result;
  };
  return {keel::PromptStream(prompt), keel::RewardSum(std::move(terms), keel::OnError::kStop)};
}

/// A model with random weights and no stop token, so that all completions have the same length. With a rank, only an
/// adapter on all linear layers is trained, and the frozen weights have dtype `type`.
inline keel::LoadedModel random_model(const std::string& shape, at::Device device, at::ScalarType type,
                                      int64_t lora_rank = 0) {
  const keel::ModelConfig config = bench_shape(shape);
  std::vector<std::string> words;
  for (int64_t i = 0; i < config.vocab_size; ++i) words.push_back("w" + std::to_string(i));
  keel::LoadedModel result{
      .model = keel::ModelWeights::random(config, /*seed=*/0, {device, lora_rank > 0 ? type : at::kFloat}),
      .tokenizer = keel::Tokenizer::word_level(words, {})};
  if (lora_rank > 0) result.model.add_adapter({.rank = lora_rank}, /*seed=*/0);
  return result;
}
