#include "keel/rollout/engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "keel/model/network/packed_forward.h"
#include "keel/ops/sampler.h"
#include "keel/rollout/sampling_weights.h"
#include "keel/train/update/gradients.h"
#include "tests/support/errors.h"
#include "tests/support/reference_model.h"
#include "tests/support/tiny_rollouts.h"

namespace keel {
namespace {

class RolloutEngineTest : public testing::Test {
 protected:
  std::map<uint64_t, Rollout> by_id(const std::vector<Prompt>& prompts, const SamplingRequest& request) const {
    std::map<uint64_t, Rollout> result;
    for (const Rollout& rollout : engine_.generate(prompts, request))
      EXPECT_TRUE(result.emplace(rollout.id, rollout).second) << "two rollouts have the id " << rollout.id;
    return result;
  }

  ModelWeights model_ = tiny_model(tiny_config(6, 2, false));
  Tokenizer tokenizer_ = tiny_tokenizer();
  RolloutEngine engine_{SamplingModel({model_}), tokenizer_};
  std::vector<Prompt> prompts_ = tiny_prompts();
  SamplingRequest request_{.samples_per_prompt = 4, .max_new_tokens = 12, .seed = 5, .policy_version = 17};
};

/// Bitwise equality: the batch does not change the computation of a rollout.
void expect_same(const std::map<uint64_t, Rollout>& got, const std::map<uint64_t, Rollout>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [id, rollout] : want) {
    ASSERT_TRUE(got.contains(id)) << id;
    EXPECT_EQ(got.at(id).tokens.ids, rollout.tokens.ids) << id;
    EXPECT_EQ(got.at(id).finish, rollout.finish) << id;
    EXPECT_EQ(got.at(id).tokens.topk_ids, rollout.tokens.topk_ids) << id;
    for (const RolloutColumn column : {&TokenColumns::behavior_logp, &TokenColumns::behavior_other_logp,
                                       &TokenColumns::behavior_entropy, &TokenColumns::topk_behavior_logp})
      EXPECT_EQ(got.at(id).tokens.*column, rollout.tokens.*column) << id;
    ASSERT_EQ(got.at(id).tokens.hidden_states.defined(), rollout.tokens.hidden_states.defined()) << id;
    if (!rollout.tokens.hidden_states.defined()) continue;
    EXPECT_TRUE(got.at(id).tokens.hidden_states.equal(rollout.tokens.hidden_states)) << id;
  }
}

/// Fraction of the recorded log-probs that equal those of the model's full forward pass.
double fraction_equal(const Transformer& model, const std::vector<Rollout>& rollouts, double temperature) {
  std::vector<std::span<const float>> behavior;
  for (const Rollout& rollout : rollouts) behavior.push_back(rollout.tokens.behavior_logp);
  double equal = 0, tokens = 0;
  for (const PackedBatch& batch : pack(training_sequences(rollouts), 64, at::kCPU)) {
    const Tensor hidden = packed_hidden_states(model, batch.tokens, batch.positions, batch.segments)
                              .index_select(0, batch.logits_indices);
    const LmHead head(model.weights().head(), {.temperature = temperature});
    const Tensor gap = (head.statistics(hidden, batch.targets).logp - gather_targets(batch, behavior)).abs();
    equal += gap.lt(1e-5).sum().item<double>();
    tokens += static_cast<double>(gap.numel());
  }
  return equal / tokens;
}

TEST_F(RolloutEngineTest, RolloutsDoNotDependOnTheBatch) {
  request_.max_new_tokens = 40;  // more than two KV cache blocks
  request_.top_k = 3;
  request_.hidden_states = true;
  const std::map<uint64_t, Rollout> want = by_id(prompts_, request_);
  EXPECT_EQ(want.size(), 28u);
  for (const int64_t max_sequences : {1, 3, 8, 12, 1024}) {
    request_.max_sequences = max_sequences;
    expect_same(by_id(prompts_, request_), want);
  }
  std::vector<Prompt> backwards = prompts_;
  std::reverse(backwards.begin(), backwards.end());
  expect_same(by_id(backwards, request_), want);
  std::map<uint64_t, Rollout> alone;
  for (const Prompt& prompt : prompts_) alone.merge(by_id({prompt}, request_));
  expect_same(alone, want);
}

TEST_F(RolloutEngineTest, CopiesTheRequest) {
  const std::vector<Rollout> want = engine_.generate(prompts_, request_);
  Decoding decoding = engine_.submit(prompts_, request_);
  for (request_ = {}; !decoding.done();) decoding.poll();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(decoding.rollouts()[i].tokens.ids, want[i].tokens.ids);
}

TEST_F(RolloutEngineTest, SamplesAsFromTheFullForwardPass) {
  // Samples each token again from a reference network in float64, without cache and batch.
  request_.temperature = 0.8;
  const ReferenceModel reference(model_);
  int64_t tokens = 0;
  for (const Rollout& rollout : engine_.generate(prompts_, request_)) {
    std::vector<int64_t> text(prompts_[rollout.prompt].tokens.begin(), prompts_[rollout.prompt].tokens.end());
    for (size_t t = 0; t < rollout.tokens.size(); ++t, ++tokens) {
      const Tensor logits = reference.log_probabilities(text, 1.0).narrow(0, text.size() - 1, 1).detach();
      const SampledTokens drawn =
          sample(logits.to(at::kFloat), request_.temperature, request_.seed,
                 int64_tensor({static_cast<int64_t>(rollout.id)}), int64_tensor({static_cast<int64_t>(t)}));
      ASSERT_EQ(drawn.tokens.item<int64_t>(), rollout.tokens.ids[t]) << rollout.id << " token " << t;
      EXPECT_NEAR(drawn.logp.item<double>(), rollout.tokens.behavior_logp[t], 1e-5) << rollout.id << " token " << t;
      text.push_back(rollout.tokens.ids[t]);
    }
  }
  EXPECT_GT(tokens, 100);
}

TEST_F(RolloutEngineTest, RecordsTheNoisyDistributionThatItSamplesFrom) {
  const std::map<uint64_t, Rollout> without_noise = by_id(prompts_, request_);
  request_.logit_noise = 0.5;
  request_.top_k = 3;
  const std::map<uint64_t, Rollout> noisy = by_id(prompts_, request_);
  request_.max_sequences = 4;
  expect_same(by_id(prompts_, request_), noisy);
  const ReferenceModel reference(model_);
  int64_t changed = 0;
  double difference = 0;
  for (const auto& [id, rollout] : noisy) {
    changed += rollout.tokens.ids != without_noise.at(id).tokens.ids;
    std::vector<int64_t> text(prompts_[rollout.prompt].tokens.begin(), prompts_[rollout.prompt].tokens.end());
    for (size_t t = 0; t < rollout.tokens.size(); ++t) {
      const Tensor plain = reference.log_probabilities(text, 1.0)[static_cast<int64_t>(text.size()) - 1].detach();
      const Tensor noise =
          with_logit_noise(at::zeros({1, plain.size(0)}), 0.5, request_.seed, int64_tensor({static_cast<int64_t>(id)}),
                           int64_tensor({static_cast<int64_t>(t)}))[0];
      const Tensor mu = at::log_softmax(plain + noise, 0);
      EXPECT_NEAR(rollout.tokens.behavior_logp[t], mu[rollout.tokens.ids[t]].item<double>(), 1e-5);
      EXPECT_NEAR(rollout.tokens.topk_behavior_logp[3 * t], mu.max().item<double>(), 1e-5);
      difference =
          std::max(difference, std::abs(rollout.tokens.behavior_logp[t] - plain[rollout.tokens.ids[t]].item<double>()));
      text.push_back(rollout.tokens.ids[t]);
    }
  }
  EXPECT_GT(difference, 0.3);
  EXPECT_GT(changed, 5);
}

TEST_F(RolloutEngineTest, LowPrecisionRoundsTheSameWithAndWithoutTheCache) {
  // Both paths round. Where their sums differ in the last bit, they may round to different neighbours.
  for (const char* precision : {"bf16", "fp8_full", "fp8_e5m2_full"}) {
    const SamplingModel rounded = sampling_model({model_}, precision);
    const std::vector<Rollout> rollouts = RolloutEngine(rounded, tokenizer_).generate(prompts_, request_);
    EXPECT_GT(fraction_equal(rounded, rollouts, 1), 0.8) << precision;
    EXPECT_LT(fraction_equal(CausalLm(model_), rollouts, 1), 0.2) << precision;
  }
}

TEST_F(RolloutEngineTest, RecordsTheLogProbsThatTheTrainerComputes) {
  for (const double temperature : {1.0, 0.7, 1.6}) {
    request_.temperature = temperature;
    EXPECT_EQ(fraction_equal(CausalLm(model_), engine_.generate(prompts_, request_), temperature), 1);
  }
}

TEST_F(RolloutEngineTest, RecordsTopKAndOtherLogProbsThatTheTrainerComputes) {
  request_.temperature = 0.7;
  request_.top_k = 4;
  const ReferenceModel reference(model_);
  for (const Rollout& rollout : engine_.generate(prompts_, request_)) {
    ASSERT_EQ(rollout.tokens.behavior_other_logp.size(), rollout.tokens.size());
    ASSERT_EQ(rollout.tokens.behavior_entropy.size(), rollout.tokens.size());
    ASSERT_EQ(rollout.tokens.topk_ids.size(), 4 * rollout.tokens.size());
    std::vector<int64_t> text(prompts_[rollout.prompt].tokens.begin(), prompts_[rollout.prompt].tokens.end());
    const size_t first = text.size() - 1;
    text.insert(text.end(), rollout.tokens.ids.begin(), rollout.tokens.ids.end());
    const Tensor logps = reference.log_probabilities(text, request_.temperature).detach();
    for (size_t t = 0; t < rollout.tokens.size(); ++t) {
      const Tensor row = logps[static_cast<int64_t>(first + t)];
      EXPECT_NEAR(rollout.tokens.behavior_other_logp[t],
                  std::log1p(-std::exp(row[rollout.tokens.ids[t]].item<double>())), 1e-5);
      EXPECT_NEAR(rollout.tokens.behavior_entropy[t], -(row.exp() * row).sum().item<double>(), 1e-5);
      const Tensor largest = std::get<0>(row.topk(4));
      for (int64_t k = 0; k < 4; ++k) {
        EXPECT_NEAR(rollout.tokens.topk_behavior_logp[t * 4 + k], largest[k].item<double>(), 1e-5);
        EXPECT_NEAR(row[rollout.tokens.topk_ids[t * 4 + k]].item<double>(), largest[k].item<double>(), 1e-5);
      }
    }
  }
}

TEST_F(RolloutEngineTest, EndsACompletionAtAStopTokenOrAtTheLimit) {
  const int32_t eos = *tokenizer_.eos_id();
  int stopped = 0, cut = 0;
  for (const Rollout& rollout : engine_.generate(prompts_, request_)) {
    ASSERT_FALSE(rollout.tokens.ids.empty());
    ASSERT_EQ(rollout.tokens.size(), rollout.tokens.behavior_logp.size());
    const int64_t stops = std::count(rollout.tokens.ids.begin(), rollout.tokens.ids.end(), eos);
    if (rollout.finish == Finish::kStop) {
      EXPECT_EQ(stops, 1);
      EXPECT_EQ(rollout.tokens.ids.back(), eos);
      ++stopped;
    } else {
      EXPECT_EQ(stops, 0);
      EXPECT_EQ(rollout.tokens.size(), 12u);
      ++cut;
    }
    EXPECT_EQ(rollout.text, tokenizer_.decode(rollout.tokens.ids));
    EXPECT_THAT(rollout.text, Not(HasSubstr("<eos>")));
  }
  EXPECT_GT(stopped, 0);
  EXPECT_GT(cut, 0);
}

TEST_F(RolloutEngineTest, EndsACompletionAtAStopString) {
  const std::vector<Rollout> free = engine_.generate(prompts_, request_);
  request_.stop_strings = {"c d", "g h"};
  const std::vector<Rollout> rollouts = engine_.generate(prompts_, request_);
  int ended = 0;
  for (size_t i = 0; i < rollouts.size(); ++i) {
    // The tokens are the same up to the one that completes the string.
    size_t count = 0, first = std::string::npos;
    while (first == std::string::npos && count < free[i].tokens.size()) {
      const std::string text = tokenizer_.decode(std::span(free[i].tokens.ids).first(++count));
      first = std::min(text.find("c d"), text.find("g h"));
    }
    const std::string text = tokenizer_.decode(free[i].tokens.ids);
    EXPECT_EQ(rollouts[i].tokens.ids,
              std::vector<int32_t>(free[i].tokens.ids.begin(), free[i].tokens.ids.begin() + count));
    EXPECT_EQ(rollouts[i].tokens.behavior_logp.size(), count);
    EXPECT_EQ(rollouts[i].text, text.substr(0, first));
    EXPECT_EQ(rollouts[i].finish, first == std::string::npos ? free[i].finish : Finish::kStopString);
    ended += rollouts[i].finish == Finish::kStopString;
  }
  EXPECT_GT(ended, 2);
  EXPECT_LT(ended, 28);
}

TEST_F(RolloutEngineTest, IgnoresStopTokensIfStopAtEosIsFalse) {
  request_.stop_at_eos = false;
  int64_t passed = 0;
  for (const Rollout& rollout : engine_.generate(prompts_, request_)) {
    EXPECT_EQ(rollout.tokens.size(), 12u);
    EXPECT_EQ(rollout.finish, Finish::kLength);
    passed += std::count(rollout.tokens.ids.begin(), rollout.tokens.ids.end() - 1, *tokenizer_.eos_id());
  }
  EXPECT_GT(passed, 0);
}

TEST_F(RolloutEngineTest, AStopTokenAtTheLimitCountsAsAStop) {
  request_.samples_per_prompt = 32;
  request_.max_new_tokens = 1;
  int stopped = 0;
  for (const Rollout& rollout : engine_.generate(prompts_, request_)) {
    ASSERT_EQ(rollout.tokens.size(), 1u);
    EXPECT_EQ(rollout.finish, rollout.tokens.ids[0] == *tokenizer_.eos_id() ? Finish::kStop : Finish::kLength);
    stopped += rollout.finish == Finish::kStop;
  }
  EXPECT_GT(stopped, 0);
}

TEST_F(RolloutEngineTest, PromptLimitsGiveTheSameTokensAsSeparateRequests) {
  const std::vector<int64_t> limits = {1, 40, 3, 17, 2, 33, 16};  // of seven prompts; blocks have 16 tokens
  std::map<uint64_t, Rollout> alone;
  std::set<int64_t> cut_at;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    request_.max_new_tokens = limits[i];
    alone.merge(by_id({prompts_[i]}, request_));
  }
  for (const auto& [id, rollout] : alone)
    if (rollout.finish == Finish::kLength) cut_at.insert(static_cast<int64_t>(rollout.tokens.size()));
  EXPECT_GT(cut_at.size(), 3u);
  request_.max_new_tokens = 1;
  request_.prompt_max_new_tokens = limits;
  for (const int64_t max_sequences : {1, 3, 8, 1024}) {
    request_.max_sequences = max_sequences;
    expect_same(by_id(prompts_, request_), alone);
  }
}

TEST_F(RolloutEngineTest, SizesTheCacheForTheLongestCompletionsOfABatch) {
  request_.max_new_tokens = 1000;
  request_.prompt_max_new_tokens = {1, 40, 3, 17, 2, 33, 16};
  request_.samples_per_prompt = 1;
  request_.max_sequences = 2;
  // Blocks of 16 tokens: three for each of two completions, one for each of two prompts, and a padding block.
  EXPECT_EQ(Decoding::kv_cache_bytes(SamplingModel({model_}), prompts_, request_),
            KvCache::bytes(model_.config(), 3 + 3 + 2 + 1, at::kFloat, at::kCPU));
}

TEST_F(RolloutEngineTest, NumbersRolloutsByPromptAndReportsFinishedGroups) {
  for (const int64_t max_sequences : {1, 8, 1024}) {
    request_.max_sequences = max_sequences;
    std::vector<uint64_t> handed_over;
    RolloutProgress progress;
    const auto hand_over = [&](std::span<Rollout> group) {
      EXPECT_EQ(group.size(), 4u);
      for (const Rollout& rollout : group) {
        EXPECT_FALSE(rollout.tokens.ids.empty());
        handed_over.push_back(rollout.id);
      }
    };
    const auto follow = [&](const RolloutProgress& now) {
      EXPECT_GE(now.finished, progress.finished);
      EXPECT_GT(now.tokens, progress.tokens);
      progress = now;
    };
    const std::vector<Rollout> rollouts =
        engine_.generate(prompts_, request_, {.group = hand_over, .progress = follow});
    int64_t tokens = 0;
    for (const Rollout& rollout : rollouts) tokens += static_cast<int64_t>(rollout.tokens.size());
    EXPECT_EQ(progress.finished, 28);
    EXPECT_EQ(progress.total, 28);
    EXPECT_EQ(progress.tokens, tokens);
    ASSERT_EQ(rollouts.size(), 28u);
    ASSERT_EQ(handed_over.size(), 28u);
    for (size_t i = 0; i < rollouts.size(); ++i) {
      EXPECT_EQ(rollouts[i].prompt, static_cast<int64_t>(i / 4));
      EXPECT_EQ(rollouts[i].id, prompts_[i / 4].id * 4 + i % 4);
      EXPECT_EQ(rollouts[i].policy_version, 17u);
    }
    // Each group is reported once and complete. Their order depends on the samples.
    for (size_t i = 0; i < handed_over.size(); ++i) EXPECT_EQ(handed_over[i] % 4, i % 4);
    EXPECT_EQ(std::set<uint64_t>(handed_over.begin(), handed_over.end()).size(), 28u);
  }
}

TEST_F(RolloutEngineTest, SamplesAreEqualAtTemperatureZero) {
  request_.temperature = 0;
  const std::vector<Rollout> rollouts = engine_.generate(prompts_, request_);
  for (size_t i = 0; i < rollouts.size(); ++i) EXPECT_EQ(rollouts[i].tokens.ids, rollouts[i / 4 * 4].tokens.ids) << i;
}

TEST_F(RolloutEngineTest, CompletionsDifferBySampleSeedAndId) {
  const std::vector<Rollout> one = engine_.generate(prompts_, request_);
  request_.seed = 6;
  const std::vector<Rollout> other = engine_.generate(prompts_, request_);
  int equal_samples = 0, equal_seeds = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    equal_samples += i % 4 != 0 && one[i].tokens.ids == one[i - 1].tokens.ids;
    equal_seeds += one[i].tokens.ids == other[i].tokens.ids;
  }
  EXPECT_LT(equal_samples, 5);
  EXPECT_LT(equal_seeds, 7);
}

TEST_F(RolloutEngineTest, RefusesEmptyAndTooLongPrompts) {
  prompts_[2].tokens.clear();
  EXPECT_THAT(error_of(3, [&] { engine_.generate(prompts_, request_); }),
              HasSubstr("prompt 49 is empty; a prompt needs at least one token"));
  prompts_ = tiny_prompts();
  request_.max_new_tokens = 64 - 8;  // the longest prompt has 9 tokens, the model 64 positions
  const std::string message = error_of(2, [&] { engine_.generate(prompts_, request_); });
  for (const char* part : {"prompt 58", "65 tokens", "64 positions", "Lower rollout.max_new_tokens"})
    EXPECT_THAT(message, HasSubstr(part));
  request_.max_new_tokens = 64 - 9;
  EXPECT_EQ(engine_.generate(prompts_, request_).size(), 28u);
}

TEST_F(RolloutEngineTest, RefusesCountsBelowOne) {
  const auto refusal = [&](const SamplingRequest& request) {
    return error_of(2, [&] { engine_.generate(prompts_, request); });
  };
  const auto expect = [](const std::string& message, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_THAT(message, HasSubstr(part));
  };
  for (const int64_t count : {0, -3}) {
    const std::string got = " is " + std::to_string(count) + "; expected 1 or more";
    expect(refusal({.samples_per_prompt = count}), {"samples_per_prompt", got.c_str()});
    expect(refusal({.max_new_tokens = count}), {"max_new_tokens of prompt 43", got.c_str()});
    expect(refusal({.max_sequences = count}), {"max_sequences", got.c_str()});
    expect(refusal({.prompt_max_new_tokens = {1, 2, 3, 4, count, 6, 7}}),
           {"prompt_max_new_tokens of prompt 55", got.c_str()});
  }
  expect(refusal({.prompt_max_new_tokens = {1, 2}}),
         {"2 limits for 7 prompts", "one for each", "max_new_tokens for all"});
  expect(refusal({.prompt_max_new_tokens = {1, 2, 3, 4, 5, 56, 7}}), {"prompt 58", "65 tokens"});
}

TEST_F(RolloutEngineTest, FailsAtLogProbsThatAreNotFiniteAndNamesPromptAndToken) {
  prompts_.erase(prompts_.begin() + 2);  // the one with an h
  const std::vector<Rollout> expected = engine_.generate(prompts_, request_);
  size_t first = request_.max_new_tokens;  // token after an h
  std::string location;
  for (const Rollout& rollout : expected)
    for (size_t t = 1; t < std::min(rollout.tokens.size(), first); ++t)
      if (rollout.tokens.ids[t - 1] == 10) {
        first = t;
        location = "prompt " + std::to_string(prompts_[rollout.prompt].id) + ", token " + std::to_string(t) + " of";
      }
  ASSERT_LT(first, 12u);
  const ModelWeights broken = tiny_model(tiny_config(6, 2, false)), overflowing = tiny_model(tiny_config(6, 2, false));
  const auto generate = [&](const ModelWeights& model) {
    RolloutEngine(SamplingModel({model}), tokenizer_).generate(prompts_, request_);
  };
  for (const NamedTensor& parameter : broken.parameters())
    if (parameter.name == "model.embed_tokens.weight") parameter.value[10][0].fill_(NAN);
  const std::string message = error_of(4, [&] { generate(broken); });
  for (const std::string& part : {location, std::string("\"model.embed_tokens.weight\" holds NaN")})
    EXPECT_THAT(message, HasSubstr(part));
  overflowing.head().value().sign_().mul_(3e38);  // finite, but their sums overflow
  EXPECT_THAT(error_of(4, [&] { generate(overflowing); }),
              HasSubstr("prompt 43, token 0 of a completion: the model's log-probabilities are not finite"));
}

TEST_F(RolloutEngineTest, RefusesTokensOutsideTheVocabulary) {
  const ModelConfig ten_words = tiny_config(6, 2, false, /*width=*/4, /*vocab=*/10);
  const RolloutEngine narrow(SamplingModel({tiny_model(ten_words)}), tokenizer_);
  const std::string message = error_of(3, [&] { narrow.generate(prompts_, request_); });
  for (const char* part : {"prompt 49", "token 10", "\"h\"", "vocabulary of 10", "do not belong together"})
    EXPECT_THAT(message, HasSubstr(part));
  prompts_.erase(prompts_.begin() + 2);  // the one with an h
  EXPECT_EQ(narrow.generate(prompts_, request_).size(), 24u);
  for (const int32_t stray : {-1, 11, 1 << 30}) {  // not in the tokenizer
    prompts_[0].tokens[1] = stray;
    EXPECT_THAT(error_of(3, [&] { engine_.generate(prompts_, request_); }), HasSubstr(std::to_string(stray)));
  }
}

}  // namespace
}  // namespace keel
