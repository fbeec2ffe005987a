#include "keel/evaluation/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "keel/reward/reward_options.h"
#include "tests/support/reference_model.h"
#include "tests/support/tiny_rollouts.h"

namespace keel {
namespace {

TEST(WilsonInterval, MatchesPublishedIntervals) {
  struct Row {
    double successes, count, low, high;
  };
  // Newcombe, "Two-sided confidence intervals for the single proportion" (1998), table I, method 3.
  for (const Row& row : {Row{81, 263, 0.2553, 0.3662}, Row{15, 148, 0.0624, 0.1605}, Row{0, 20, 0.0000, 0.1611},
                         Row{1, 29, 0.0061, 0.1718}}) {
    const auto [low, high] = wilson_interval(row.successes, row.count);
    EXPECT_NEAR(low, row.low, 5.1e-5) << row.successes << " of " << row.count;
    EXPECT_NEAR(high, row.high, 5.1e-5) << row.successes << " of " << row.count;
    const auto [failed_low, failed_high] = wilson_interval(row.count - row.successes, row.count);
    EXPECT_NEAR(failed_low, 1 - high, 1e-12);  // the failures' interval is the mirror image
    EXPECT_NEAR(failed_high, 1 - low, 1e-12);
  }
}

TEST(WilsonInterval, IsWithinZeroAndOneAndCoversBothWithoutTrials) {
  EXPECT_EQ(wilson_interval(0, 0), std::pair(0.0, 1.0));
  for (const double count : {1.0, 7.0, 512.0}) {
    EXPECT_EQ(wilson_interval(0, count).first, 0);
    EXPECT_EQ(wilson_interval(count, count).second, 1);
  }
}

/// Returns 1 if the completion contains "f" and ended with a stop token.
double reward_f(const Prompt& prompt, std::string_view completion) {
  EXPECT_EQ(prompt.text, prompt.answer.get<int64_t>() % 2 == 0 ? "<bos> b" : "<bos> c d e");
  return completion.find('f') != completion.npos && completion.ends_with("<eos>") ? 1 : 0;
}

RewardSum finds_f() {
  std::vector<RewardTerm> terms;
  terms.push_back({.name = "finds_f", .weight = 1, .sources = {}, .reward = make_function_reward(reward_f)});
  return {std::move(terms), OnError::kStop};
}

std::vector<Prompt> prompts_for(const Tokenizer& tokenizer, int64_t count, bool two_sources) {
  std::vector<Prompt> prompts;
  for (int64_t i = 0; i < count; ++i) {
    const std::string text = i % 2 == 0 ? "<bos> b" : "<bos> c d e";
    prompts.push_back({.id = static_cast<uint64_t>(i),
                       .tokens = tokenizer.encode(text),
                       .text = text,
                       .source = two_sources && i % 2 == 1 ? "long" : "short",
                       .answer = i});
  }
  return prompts;
}

/// A small untrained network.
const RolloutEngine& tiny_policy() {
  static const Tokenizer tokenizer = tiny_tokenizer();
  static const RolloutEngine policy(SamplingModel({tiny_model(tiny_config(3, 1, false))}), tokenizer);
  return policy;
}

/// Computes the reward from the tokens: "f" is 8 and the stop token 2.
bool is_right(const Rollout& rollout) {
  return rollout.tokens.ids.back() == 2 && std::count(rollout.tokens.ids.begin(), rollout.tokens.ids.end(), 8) > 0;
}

void expect_interval(const Evaluation& result, const Interval& expected) {
  ASSERT_TRUE(result.interval());
  EXPECT_NEAR(result.interval()->first, expected.first, 1e-12);
  EXPECT_NEAR(result.interval()->second, expected.second, 1e-12);
}

TEST(Evaluation, MatchesCountsFromTheTokens) {
  const RolloutEngine& policy = tiny_policy();
  const std::vector<Prompt> prompts = prompts_for(policy.tokenizer(), 200, false);
  const EvaluationRequest request{.max_new_tokens = 6, .seed = 9, .max_sequences = 64};
  const Evaluation result = evaluate(policy, prompts, finds_f(), request);
  ASSERT_EQ(result.count, 200);
  ASSERT_EQ(result.rollouts.size(), 200u);
  int64_t right = 0, cut = 0, tokens = 0;
  for (const Rollout& rollout : result.rollouts) {
    right += is_right(rollout);
    cut += rollout.tokens.ids.back() != 2;
    tokens += static_cast<int64_t>(rollout.tokens.size());
  }
  EXPECT_GT(right, 0);
  EXPECT_GT(cut, 0);
  EXPECT_NEAR(result.mean, static_cast<double>(right) / 200, 1e-12);
  EXPECT_NEAR(result.truncated, static_cast<double>(cut) / 200, 1e-12);
  EXPECT_NEAR(result.length_mean, static_cast<double>(tokens) / 200, 1e-9);
  expect_interval(result, wilson_interval(static_cast<double>(right), 200));

  EvaluationRequest at_once = request;
  at_once.max_sequences = 1000;
  const Evaluation again = evaluate(policy, prompts, finds_f(), at_once);
  for (size_t i = 0; i < 200; ++i) EXPECT_EQ(again.rollouts[i].tokens.ids, result.rollouts[i].tokens.ids) << i;
}

TEST(Evaluation, AveragesSeveralSamplesBySource) {
  const RolloutEngine& policy = tiny_policy();
  const std::vector<Prompt> prompts = prompts_for(policy.tokenizer(), 50, true);
  const EvaluationRequest request{.samples = 4, .max_new_tokens = 6, .seed = 9, .max_sequences = 32};
  const Evaluation result = evaluate(policy, prompts, finds_f(), request);
  ASSERT_EQ(result.rollouts.size(), 200u);
  std::map<std::string, double> mean, any;
  for (size_t p = 0; p < prompts.size(); ++p) {
    double right = 0;
    for (size_t i = 0; i < 4; ++i) {
      const Rollout& rollout = result.rollouts[4 * p + i];
      EXPECT_EQ(rollout.prompt, static_cast<int64_t>(p));
      right += is_right(rollout);
    }
    for (const std::string& source : {prompts[p].source, std::string("all")}) {
      const double weight = source == "all" ? 50 : 25;
      mean[source] += right / 4 / weight;
      any[source] += (right > 0) / weight;
    }
  }
  const auto& [all, sources] = result.statistics;
  ASSERT_EQ(sources.size(), 2u);
  const auto check = [&](const SourceStatistics& found, const std::string& name) {
    EXPECT_NEAR(found.measures[0].estimate.mean, mean[name], 1e-12) << name;
    EXPECT_EQ(found.measures[3].name, "pass@4");
    EXPECT_NEAR(found.measures[3].estimate.mean, any[name], 1e-12) << name;
  };
  check(all, "all");
  for (const SourceStatistics& source : sources) check(source, source.source);
  EXPECT_NEAR(result.mean, mean["all"], 1e-12);
  ASSERT_TRUE(result.interval().has_value());
  EXPECT_TRUE(result.interval()->first < result.mean && result.mean < result.interval()->second);

  Json row;
  write_evaluation(result, row);
  EXPECT_EQ(row["eval/pass@4"], all.measures[3].estimate.mean);
  EXPECT_EQ(row["eval/long/pass@4"], sources[1].measures[3].estimate.mean);
  EXPECT_EQ(row["eval/count"], 50);
}

TEST(Evaluation, IsGreedyAtTemperatureZeroAndWithASingleTokenInTheNucleus) {
  const RolloutEngine& policy = tiny_policy();
  const std::vector<Prompt> prompts = prompts_for(policy.tokenizer(), 6, false);
  const EvaluationRequest greedy{.samples = 3, .temperature = 0, .max_new_tokens = 6, .seed = 1};
  const EvaluationRequest narrow{.samples = 3, .filter = {.top_p = 1e-6}, .max_new_tokens = 6, .seed = 2};
  const Evaluation one = evaluate(policy, prompts, finds_f(), greedy);
  const Evaluation two = evaluate(policy, prompts, finds_f(), narrow);
  for (size_t i = 0; i < one.rollouts.size(); ++i) {
    EXPECT_EQ(one.rollouts[i].tokens.ids, two.rollouts[i].tokens.ids) << i;
    EXPECT_EQ(one.rollouts[i].tokens.ids, one.rollouts[i / 3 * 3].tokens.ids) << i;
  }
}

TEST(Evaluation, StopsBetweenBatchesAndReportsTheFinishedOnes) {
  const RolloutEngine& policy = tiny_policy();
  const std::vector<Prompt> prompts = prompts_for(policy.tokenizer(), 20, false);
  const EvaluationRequest request{.samples = 2, .max_new_tokens = 6, .seed = 9, .max_sequences = 8};
  int calls = 0;  // once before each batch and once before each of its 4 prompts is scored
  const Evaluation result = evaluate(policy, prompts, finds_f(), request, [&] { return ++calls > 2 * (1 + 4); });
  EXPECT_EQ(result.count, 8);
  EXPECT_EQ(result.rollouts.size(), 16u);
  EXPECT_EQ(result.statistics.all.prompts, 8);
  EXPECT_EQ(evaluate(policy, {}, finds_f(), request).count, 0);
  calls = 0;  // a stop while the second batch is scored discards that batch
  const Evaluation cut = evaluate(policy, prompts, finds_f(), request, [&] { return ++calls > 1 + 4 + 1 + 2; });
  EXPECT_EQ(cut.count, 4);
  EXPECT_EQ(cut.verdicts.size(), 8u);
}

/// Scores only the prompts with an even answer, or none with `nothing`.
RewardSum scores_even_prompts(bool nothing) {
  class Even final : public Reward {
   public:
    explicit Even(bool nothing) : nothing_(nothing) {}
    Scores operator()(std::span<const RewardSample> samples) const override {
      Scores scores;
      for (const RewardSample& sample : samples) {
        const bool is_scored = !nothing_ && sample.prompt.answer.get<int64_t>() % 2 == 0;
        scores.rewards.push_back(is_scored ? std::optional(reward_f(sample.prompt, sample.with_special_tokens))
                                           : std::nullopt);
      }
      return scores;
    }

   private:
    bool nothing_;
  };
  std::vector<RewardTerm> terms;
  terms.push_back({.name = "even", .weight = 1, .sources = {}, .reward = std::make_unique<Even>(nothing)});
  return {std::move(terms), OnError::kStop};
}

TEST(Evaluation, ExcludesAndCountsUnscoredCompletions) {
  const RolloutEngine& policy = tiny_policy();
  const std::vector<Prompt> prompts = prompts_for(policy.tokenizer(), 200, false);
  const EvaluationRequest request{.max_new_tokens = 6, .seed = 9};
  const Evaluation result = evaluate(policy, prompts, scores_even_prompts(false), request);
  double right = 0;
  for (size_t i = 0; i < 200; i += 2) right += is_right(result.rollouts[i]);
  EXPECT_GT(right, 0);
  EXPECT_NEAR(result.mean, right / 100, 1e-12);
  expect_interval(result, wilson_interval(right, 100));
  Json row;
  write_evaluation(result, row);
  EXPECT_EQ(row["eval/unjudged"], 100);
  EXPECT_EQ(row["eval/count"], 200);
  EXPECT_TRUE(row.contains("eval/reward") && !row.contains("eval/accuracy"));  // a function of unknown kind
  EXPECT_TRUE(evaluation_sample(prompts[1], result.rollouts[1], result.verdicts[1])["reward"].is_null());
  EXPECT_EQ(evaluation_sample(prompts[0], result.rollouts[0], result.verdicts[0])["reward"],
            is_right(result.rollouts[0]) ? 1 : 0);

  const Evaluation none = evaluate(policy, prompts, scores_even_prompts(true), request);
  EXPECT_FALSE(none.has_rewards());
  Json empty;
  write_evaluation(none, empty);
  EXPECT_FALSE(empty.contains("eval/accuracy") || empty.contains("eval/reward") || empty.contains("eval/low"));
  EXPECT_EQ(empty["eval/unjudged"], 200);
}

}  // namespace
}  // namespace keel
