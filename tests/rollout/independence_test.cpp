// A rollout does not depend on its batch. Compares 1,000 rollouts (400 in make test) that are decoded alone and in
// batches of 64, with prompts shared by their samples and with separate ones.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <set>

#include "keel/core/philox.h"
#include "keel/core/random.h"
#include "keel/kernels/row_math.h"
#include "keel/model/network/causal_lm.h"
#include "keel/model/network/packed_forward.h"
#include "keel/rollout/engine.h"
#include "tests/support/effort.h"
#include "tests/support/reference_model.h"
#include "tests/support/tiny_rollouts.h"

namespace keel {
namespace {

constexpr int64_t kSamples = 8, kVocabulary = 1024;
const int64_t kPrompts = count(50, 125), kRollouts = kPrompts * kSamples;
constexpr double kTemperature = 0.9, kNearTie = 1e-4;
constexpr uint64_t kSeed = 11;

SamplerWeights independence_model() {
  ModelConfig config = tiny_config(4, 2, false, /*width=*/8, kVocabulary);
  config.hidden_size = 32;
  config.intermediate_size = 48;
  return {tiny_model(config)};
}

Tokenizer numbered_words() {
  std::vector<std::string> words;
  for (int64_t i = 0; i < kVocabulary; ++i) words.push_back("w" + std::to_string(i));
  return Tokenizer::word_level(words, {.pad = "", .bos = "", .eos = "w0"});
}

/// Prompts of 1 to 40 tokens, which end within and at the end of a KV cache block.
std::vector<Prompt> many_prompts() {
  std::vector<Prompt> prompts(kPrompts);
  RandomSequence draws(3, Stream::kShuffle, 0);
  for (size_t p = 0; p < prompts.size(); ++p) {
    prompts[p].id = 5 * p + 2;
    for (size_t i = 0; i <= p % 40; ++i) prompts[p].tokens.push_back(static_cast<int32_t>(draws.below(kVocabulary)));
  }
  return prompts;
}

/// The same rollouts by id, with separate prompts.
std::vector<Prompt> with_separate_prompts(const std::vector<Prompt>& prompts) {
  std::vector<Prompt> result;
  for (const Prompt& prompt : prompts)
    for (int64_t i = 0; i < kSamples; ++i) {
      result.push_back(prompt);
      result.back().id = prompt.id * kSamples + i;
    }
  return result;
}

std::vector<Rollout> generate_rollouts(const SamplerWeights& model, bool shared, int64_t max_sequences) {
  const Tokenizer tokenizer = numbered_words();
  SamplingRequest request{.samples_per_prompt = shared ? kSamples : 1,
                          .temperature = kTemperature,
                          .max_new_tokens = 20,
                          .seed = kSeed,
                          .max_sequences = max_sequences};
  for (int32_t token = 0; token < kVocabulary; token += 12) request.stop_ids.push_back(token);
  const std::vector<Prompt> prompts = shared ? many_prompts() : with_separate_prompts(many_prompts());
  return RolloutEngine(SamplingModel(model), tokenizer).generate(prompts, request);
}

/// Logits [tokens, V] of a rollout by one forward pass.
Tensor full_forward(const SamplerWeights& model, const std::vector<int32_t>& prompt, const Rollout& rollout) {
  const at::NoGradGuard no_grad;
  std::vector<int64_t> text(prompt.begin(), prompt.end());
  text.insert(text.end(), rollout.tokens.ids.begin(), rollout.tokens.ids.end() - 1);
  const auto length = static_cast<int64_t>(text.size()), count = static_cast<int64_t>(rollout.tokens.size());
  const Tensor states = packed_hidden_states(CausalLm(model.weights, model.execution), int64_tensor(text),
                                             at::arange(length, at::kLong), {{.begin = 0, .length = length}});
  return model.weights.head().linear_to_float32(states.narrow(0, length - count, count), model.execution.bitwise);
}

/// How far z / T + noise of the sampled token is below the largest one.
double noisy_logit_gap(const Tensor& logits, const Rollout& rollout, size_t t) {
  const Tensor row = logits[static_cast<int64_t>(t)].contiguous();
  const float* const z = row.const_data_ptr<float>();
  double largest = -INFINITY, own = 0;
  for (int64_t token = 0; token < kVocabulary; ++token) {
    const PhiloxBlock noise =
        random_block(kSeed, Stream::kSampling, rollout.id, static_cast<uint32_t>(t), static_cast<uint32_t>(token / 4));
    const double value = z[token] / kTemperature + gumbel(noise.word[token % 4]);
    largest = std::max(largest, value);
    if (token == rollout.tokens.ids[t]) own = value;
  }
  return largest - own;
}

/// Differences between two ways of sampling the same rollouts, up to the first token that differs.
struct Differences {
  int64_t compared = 0, tokens = 0, bits = 0;
  double logp = 0, gap = 0;  // maximum difference of log-probs of equal tokens; maximum gap of differing tokens
};

Differences differences(const SamplerWeights& model, const std::vector<Rollout>& ones,
                        const std::vector<Rollout>& others) {
  const std::vector<Prompt> prompts = with_separate_prompts(many_prompts());
  Differences found;
  EXPECT_EQ(ones.size(), others.size());
  for (size_t i = 0; i < ones.size(); ++i) {
    const Rollout &one = ones[i], &other = others[i];
    EXPECT_EQ(one.id, other.id);
    for (size_t t = 0; t < std::min(one.tokens.size(), other.tokens.size()); ++t) {
      ++found.compared;
      if (one.tokens.ids[t] != other.tokens.ids[t]) {
        ++found.tokens;
        for (const Rollout* rollout : {&one, &other})
          found.gap =
              std::max(found.gap, noisy_logit_gap(full_forward(model, prompts[i].tokens, *rollout), *rollout, t));
        break;
      }
      found.bits += one.tokens.behavior_logp[t] != other.tokens.behavior_logp[t] ||
                    one.tokens.behavior_other_logp[t] != other.tokens.behavior_other_logp[t] ||
                    one.tokens.behavior_entropy[t] != other.tokens.behavior_entropy[t];
      found.logp = std::max(found.logp, std::abs(double{one.tokens.behavior_logp[t]} - other.tokens.behavior_logp[t]));
    }
  }
  return found;
}

std::string format_short(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1e", number);
  return text;
}

class Independence : public testing::Test {
 protected:
  /// Compares each way with decoding every rollout alone.
  void compare(const SamplerWeights& model, const std::function<void(const char* way, const Differences&)>& check) {
    const std::vector<Rollout> alone = generate_rollouts(model, /*shared=*/false, 1);
    ASSERT_EQ(static_cast<int64_t>(alone.size()), kRollouts);
    std::set<size_t> lengths;
    for (const Rollout& rollout : alone) lengths.insert(rollout.tokens.size());
    EXPECT_GT(lengths.size(), 15u) << "sequences end at different times";
    const struct {
      const char* way;
      bool shared;
      int64_t together;
    } ways[] = {{"among_63_others", false, 64}, {"sharing_its_prompt", true, 1}, {"both", true, 64}};
    for (const auto& [way, shared, together] : ways) {
      const Differences found = differences(model, alone, generate_rollouts(model, shared, together));
      EXPECT_GT(found.compared, 7 * kRollouts);
      const std::string text = std::to_string(found.tokens) + " of " + std::to_string(found.compared) +
                               " tokens differ, " + std::to_string(found.bits) + " other bits, log-probs apart by " +
                               format_short(found.logp);
      std::printf("  %s: %s\n", way, text.c_str());
      RecordProperty(way, text);
      check(way, found);
    }
  }
};

TEST_F(Independence, RolloutsDifferOnlyAtNearTies) {
  compare(independence_model(), [](const char* way, const Differences& found) {
    EXPECT_LT(found.gap, kNearTie) << way;
    EXPECT_LT(found.logp, 1e-4) << way;
    EXPECT_LT(found.tokens, 5) << way;
  });
}

TEST_F(Independence, RolloutsAreBitwiseEqualWithBitwiseSampling) {
  SamplerWeights model = independence_model();
  model.execution.bitwise = true;
  compare(model, [](const char* way, const Differences& found) {
    EXPECT_EQ(found.tokens, 0) << way;
    EXPECT_EQ(found.bits, 0) << way;
  });
}

TEST_F(Independence, TheGapIsMeasuredWithTheSamplersNoise) {
  // Sampled tokens have the largest noisy logit of the full forward pass, up to near ties; other tokens are far below.
  const SamplerWeights model = independence_model();
  const std::vector<Prompt> prompts = many_prompts();
  const std::vector<Rollout> rollouts = generate_rollouts(model, /*shared=*/true, 64);
  int64_t tokens = 0, far = 0;
  double logp = 0;
  for (size_t i = 0; i < rollouts.size(); i += 5) {
    const Tensor logits = full_forward(model, prompts[rollouts[i].prompt].tokens, rollouts[i]);
    const Tensor logps = at::log_softmax(logits.to(at::kDouble) / kTemperature, 1);
    Rollout other = rollouts[i];
    for (size_t t = 0; t < other.tokens.size(); ++t, ++tokens) {
      EXPECT_LT(noisy_logit_gap(logits, rollouts[i], t), kNearTie) << rollouts[i].id << " token " << t;
      const double want = logps[static_cast<int64_t>(t)][other.tokens.ids[t]].item<double>();
      logp = std::max(logp, std::abs(want - rollouts[i].tokens.behavior_logp[t]));
      other.tokens.ids[t] = (other.tokens.ids[t] + 1) % kVocabulary;
      far += noisy_logit_gap(logits, other, t) > 0.1;
    }
  }
  EXPECT_GT(tokens, 1.4 * kRollouts);
  EXPECT_GT(far, tokens * 9 / 10);
  EXPECT_LT(logp, 1e-4);
  std::printf("  log-probs of %ld tokens and of a full forward pass are apart by %s\n", static_cast<long>(tokens),
              format_short(logp).c_str());
  RecordProperty("full_forward", format_short(logp));
}

}  // namespace
}  // namespace keel
