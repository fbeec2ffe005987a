// The engine samples from the network's distribution: Pearson's chi-squared test on pairs of tokens.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "keel/rollout/engine.h"
#include "tests/support/reference_model.h"
#include "tests/support/tiny_rollouts.h"

namespace keel {
namespace {

constexpr int64_t kDraws = 20000, kWords = 11;

/// Counts of each pair of first and second token.
std::vector<double> pairs_drawn(const ModelWeights& model, const Prompt& prompt, double temperature) {
  const Tokenizer tokenizer = tiny_tokenizer();
  std::vector<double> counts(kWords * kWords, 0);
  for (const Rollout& rollout : RolloutEngine(SamplingModel({model}), tokenizer)
                                    .generate({&prompt, 1}, {.samples_per_prompt = kDraws,
                                                             .temperature = temperature,
                                                             .max_new_tokens = 2,
                                                             .stop_at_eos = false,
                                                             .seed = 21}))
    ++counts[rollout.tokens.ids[0] * kWords + rollout.tokens.ids[1]];
  return counts;
}

/// Probabilities of the pairs, by a reference network in float64.
std::vector<double> pair_probabilities(const ModelWeights& model, const Prompt& prompt, double temperature) {
  const ReferenceModel reference(model);
  std::vector<int64_t> text(prompt.tokens.begin(), prompt.tokens.end());
  const auto next = [&] {
    return to_vector(reference.log_probabilities(text, temperature)[static_cast<int64_t>(text.size()) - 1].exp());
  };
  const std::vector<double> first = next();
  std::vector<double> result;
  for (int64_t token = 0; token < kWords; ++token) {
    text.push_back(token);
    for (const double second : next()) result.push_back(first[token] * second);
    text.pop_back();
  }
  return result;
}

/// Pearson's statistic, transformed to a nearly standard normal number (Wilson-Hilferty). Pairs with fewer than five
/// expected counts are pooled.
double deviate(const std::vector<double>& counts, const std::vector<double>& probabilities) {
  double statistic = 0, cells = 0, rare_count = 0, rare_expected = 0;
  const auto add = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * kDraws;
    if (expected >= 5) {
      add(counts[i], expected);
    } else {
      rare_count += counts[i];
      rare_expected += expected;
    }
  }
  if (rare_expected >= 5) add(rare_count, rare_expected);
  EXPECT_GT(cells, 30) << "too few cells";
  const double freedom = cells - 1, third = 2 / (9 * freedom);
  return (std::cbrt(statistic / freedom) - (1 - third)) / std::sqrt(third);
}

TEST(SampledFrequencies, AreTheSoftmaxAtTheTemperature) {
  const ModelWeights model = tiny_model(tiny_config(6, 2, false));
  const Prompt prompt = tiny_prompts()[4];
  for (const double temperature : {0.7, 1.0, 1.5}) {
    const std::vector<double> counts = pairs_drawn(model, prompt, temperature);
    // One of 10,000 seeds exceeds 3.72.
    EXPECT_LT(deviate(counts, pair_probabilities(model, prompt, temperature)), 3.72) << temperature;
    EXPECT_GT(deviate(counts, pair_probabilities(model, prompt, 1.1 * temperature)), 3.72) << temperature;
  }
}

}  // namespace
}  // namespace keel
