#include "keel/evaluation/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "tests/support/errors.h"

namespace keel {
namespace {

TEST(PassAtK, EqualsTheFractionOfSubsetsWithASolvedSample) {
  for (int n = 1; n <= 10; ++n) {
    for (int c = 0; c <= n; ++c) {
      for (int k = 1; k <= n; ++k) {
        int64_t subsets = 0, with_solved = 0;  // the first c samples are the solved ones
        for (unsigned subset = 0; subset < (1u << n); ++subset) {
          if (std::popcount(subset) != k) continue;
          ++subsets;
          with_solved += (subset & ((1u << c) - 1)) != 0;
        }
        EXPECT_NEAR(pass_at_k(n, c, k), static_cast<double>(with_solved) / static_cast<double>(subsets), 1e-12)
            << n << " " << c << " " << k;
      }
    }
  }
}

TEST(PassAtK, IsExactWhereBinomialsOverflow) {
  EXPECT_NEAR(pass_at_k(10000, 1, 5000), 0.5, 1e-12);  // one solved sample is in half of the halves
  EXPECT_NEAR(pass_at_k(100000, 3, 1), 3e-5, 1e-12);   // pass@1 is the fraction of solved samples
  EXPECT_NEAR(pass_at_k(2000, 2, 1000), 1 - 1000.0 * 999 / (2000.0 * 1999), 1e-12);
  EXPECT_EQ(pass_at_k(1000, 501, 500), 1);
  EXPECT_EQ(pass_at_k(1000, 0, 500), 0);
}

TEST(AnswerClasses, GroupEquivalentAnswers) {
  const auto classes = [](const std::vector<std::string>& texts, bool is_math) {
    std::vector<FinalAnswer> answers;
    for (const std::string& text : texts) answers.push_back({text, is_math});
    return answer_classes(answers);
  };
  EXPECT_EQ(classes({"1/2", "", "0.5", "\\frac{1}{2}", "2", "abc", "x = 2", "abc", "abd", ""}, true),
            (std::vector<int64_t>{0, -1, 0, 0, 1, 2, 1, 2, 3, -1}));
  // Text answers are not parsed as math: "ab" is not "ba".
  EXPECT_EQ(classes({"ab", "ba", "", "1/2", "0.5", "ab"}, false), (std::vector<int64_t>{0, 1, -1, 2, 3, 0}));
}

TEST(MajorityAtK, MatchesHandComputedValues) {
  const std::vector<int64_t> classes = {0, 1, 1, 2, 0, -1, -1, 0};
  const std::vector<double> rewards = {0, 1, 1, 0, 0, 0, 0, 0};
  EXPECT_EQ(majority_at_k(classes, rewards, 8), 0);    // 0 has three votes, 1 has two
  EXPECT_EQ(majority_at_k(classes, rewards, 4), 0.5);  // {0 1 1 2}: 1 wins; {0 - - 0}: 0 wins
  EXPECT_EQ(majority_at_k(classes, rewards, 3),
            0.5);  // {0 1 1}, {2 0 -}: a tie, 2 came first; the last two are left out
  EXPECT_EQ(majority_at_k(classes, rewards, 2), 0.25);  // {0 1}: 0 came first; {1 2}: 1; {0 -}; {- 0}
  EXPECT_EQ(majority_at_k(classes, rewards, 1), 0.25);  // the fraction of solved samples
  EXPECT_EQ(majority_at_k(std::vector<int64_t>{-1, -1}, std::vector<double>{1, 1}, 2), 0);  // no votes
  // If samples with the same answer have different rewards, the first counts.
  EXPECT_EQ(majority_at_k(std::vector<int64_t>{0, 0}, std::vector<double>{1, 0}, 2), 1);
  EXPECT_EQ(majority_at_k(std::vector<int64_t>{0, 0}, std::vector<double>{0, 1}, 2), 0);
}

// The mean of the blocks over all orders of the samples equals the mean over all subsets. In a subset, answers with the
// same number of votes share the win.
TEST(MajorityAtK, IsUnbiasedOverSubsets) {
  const std::vector<int64_t> classes = {0, 0, 1, 1, 2, 3, 0};
  const std::vector<double> rewards = {0, 0, 1, 1, 0, 1, 0};
  const size_t n = classes.size();
  for (int64_t k = 1; k <= static_cast<int64_t>(n); ++k) {
    double subsets = 0, expected = 0;
    for (unsigned subset = 0; subset < (1u << n); ++subset) {
      if (std::popcount(subset) != k) continue;
      int votes[4] = {0, 0, 0, 0};
      for (size_t i = 0; i < n; ++i)
        if (subset >> i & 1) ++votes[classes[i]];
      const int max_votes = *std::max_element(votes, votes + 4);
      double winners = 0, solved = 0;
      for (int answer = 0; answer < 4; ++answer) {
        winners += votes[answer] == max_votes;
        solved += votes[answer] == max_votes && (answer == 1 || answer == 3);
      }
      ++subsets;
      expected += solved / winners;
    }
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    double orders = 0, sum = 0;
    do {
      std::vector<int64_t> shuffled_classes;
      std::vector<double> shuffled_rewards;
      for (const size_t i : order) {
        shuffled_classes.push_back(classes[i]);
        shuffled_rewards.push_back(rewards[i]);
      }
      sum += majority_at_k(shuffled_classes, shuffled_rewards, k);
      ++orders;
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_NEAR(sum / orders, expected / subsets, 1e-9) << k;
  }
}

constexpr double kUnscored = -1;

/// A prompt whose samples are solved if their reward is at least 0.5.
ScoredPrompt scored(const std::string& source, const std::vector<double>& rewards,
                    const std::vector<std::string>& answers) {
  ScoredPrompt prompt{source, {}};
  for (size_t i = 0; i < rewards.size(); ++i) {
    prompt.samples.push_back({.reward = rewards[i], .solved = rewards[i] >= 0.5, .answer = {answers[i], true}});
    if (rewards[i] == kUnscored) prompt.samples.back().reward.reset();
  }
  return prompt;
}

std::vector<ScoredPrompt> two_sources() {
  return {scored("math", {1, 0, 0, 0}, {"4", "5", "5", "6"}),
          scored("code", {0.25, 0.25, 0.25, 0.25}, {"", "", "", ""}),
          scored("math", {1, 1, 0, 1}, {"7", "7.0", "8", "x = 7"})};
}

std::vector<double> means(const SourceStatistics& source) {
  std::vector<double> values;
  for (const auto& measure : source.measures) values.push_back(measure.estimate.mean);
  return values;
}

TEST(EvaluationStatistics, MatchHandComputedValues) {
  const auto [all, result] = evaluation_statistics(two_sources());
  ASSERT_EQ(result.size(), 2u);
  std::vector<std::string> names;
  for (const auto& measure : result[0].measures) names.push_back(measure.name);
  EXPECT_EQ(names, (std::vector<std::string>{"avg@4", "pass@1", "pass@2", "pass@4", "maj@2", "maj@4"}));
  EXPECT_EQ(result[0].source, "math");
  EXPECT_EQ(result[0].prompts, 2);
  EXPECT_EQ(result[0].samples, 4);
  // pass@2: 1 - C(3,2)/C(4,2) = 1/2 and 1. maj@2: {4 5} 4 is first, {5 6} wrong: 1/2; {7 7} right, {8 7} 8 is first:
  // 1/2.
  EXPECT_EQ(means(result[0]), (std::vector<double>{0.5, 0.5, 0.75, 1, 0.5, 0.5}));
  EXPECT_EQ(means(result[1]), (std::vector<double>{0.25, 0, 0, 0, 0, 0}));  // 0.5 or more would be solved
  EXPECT_EQ(all.prompts, 3);
  EXPECT_NEAR(means(all)[0], 1.25 / 3, 1e-12);
  EXPECT_TRUE(evaluation_statistics({}).sources.empty());
}

TEST(EvaluationStatistics, ExcludeUnscoredSamples) {
  const std::vector<ScoredPrompt> prompts = {
      scored("math", {kUnscored, 1, 0, 1}, {"5", "4", "5", "4"}),  // c = 2 of n = 3; the block {4 5}, 4 is first
      scored("math", {kUnscored, kUnscored, 0, kUnscored}, {"1", "1", "1", "1"}),
      scored("talk", {kUnscored, kUnscored, kUnscored, kUnscored}, {"1", "1", "1", "1"})};
  const auto [all, sources] = evaluation_statistics(prompts);
  EXPECT_EQ(all.unscored, 8);
  EXPECT_EQ(sources[0].unscored, 4);
  // avg: (2/3 + 0) / 2; pass@1 the same; pass@2 and maj@2: only the first prompt; no prompt has 4 samples.
  const Json math = to_json(sources[0]), talk = to_json(sources[1]);
  EXPECT_NEAR(math["avg@4"]["mean"].get<double>(), 1.0 / 3, 1e-12);
  EXPECT_NEAR(math["pass@1"]["mean"].get<double>(), 1.0 / 3, 1e-12);
  EXPECT_FALSE(math["pass@1"].contains("prompts"));
  // One solved prompt: Wilson's interval of 1 of 1.
  EXPECT_EQ(math["pass@2"]["mean"], 1);
  EXPECT_NEAR(math["pass@2"]["low"].get<double>(), 0.2065493143772374, 1e-12);
  EXPECT_EQ(math["pass@2"]["high"], 1);
  EXPECT_EQ(math["pass@2"]["prompts"], 1);
  EXPECT_EQ(math["maj@2"], math["pass@2"]);
  EXPECT_TRUE(math["pass@4"].is_null());
  EXPECT_EQ(math["unjudged"], 4);
  EXPECT_TRUE(talk["avg@4"].is_null());
  EXPECT_TRUE(talk["maj@2"].is_null());
  EXPECT_EQ(to_json(all)["avg@4"]["mean"], math["avg@4"]["mean"]);
  EXPECT_EQ(to_json(all)["avg@4"]["prompts"], 2);
  const std::string table = to_table({all, sources});
  EXPECT_THAT(table, HasSubstr("talk               0  avg@4          -\n"));
}

TEST(EvaluationStatistics, DistinguishASourceCalledAllFromAllSources) {
  const std::vector<ScoredPrompt> prompts = {scored("all", {1}, {"1"}), scored("rest", {0}, {"1"})};
  const auto [all, sources] = evaluation_statistics(prompts);
  EXPECT_EQ(to_json(all)["avg@1"]["mean"], 0.5);
  EXPECT_EQ(to_json(sources[0])["avg@1"]["mean"], 1);
  const std::string table = to_table({all, sources});
  EXPECT_THAT(table, HasSubstr("all                1  avg@1     1.0000"));
  EXPECT_THAT(table, HasSubstr("all sources        2  avg@1     0.5000"));
}

TEST(EvaluationStatistics, AreWrittenAsJsonAndAsATable) {
  const EvaluationStatistics result = evaluation_statistics(two_sources());
  const Json math = to_json(result.sources[0]), all = to_json(result.all);
  EXPECT_EQ(math["pass@1"]["mean"], 0.5);
  EXPECT_EQ(to_json(result.sources[1])["prompts"], 1);
  EXPECT_LE(all["avg@4"]["low"], all["avg@4"]["mean"]);
  EXPECT_LE(all["avg@4"]["mean"], all["avg@4"]["high"]);
  const std::string table = to_table(result);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 19);
  EXPECT_THAT(table, HasSubstr("math               2  pass@1    0.5000   ["));
}

TEST(EvaluationStatistics, HaveMeasuresForEachSourcesNumberOfSamples) {
  const std::vector<ScoredPrompt> uneven = {scored("a", {1, 0, 0, 0}, {"1", "2", "3", "4"}),
                                            scored("a", {1, 1, 0}, {"1", "1", "2"}), scored("b", {0}, {"1"})};
  const auto [all, sources] = evaluation_statistics(uneven);
  // Source a: avg@3 is (1/4 + 2/3) / 2; pass@2: (1 - 3/6 + 1) / 2.
  EXPECT_EQ(sources[0].samples, 3);
  EXPECT_NEAR(to_json(sources[0])["avg@3"]["mean"].get<double>(), 11.0 / 24, 1e-12);
  EXPECT_NEAR(to_json(sources[0])["pass@2"]["mean"].get<double>(), 0.75, 1e-12);
  EXPECT_EQ(sources[1].measures.size(), 2u);
  EXPECT_EQ(all.samples, 1);
  EXPECT_NEAR(to_json(all)["avg@1"]["mean"].get<double>(), 11.0 / 36, 1e-12);
}

}  // namespace
}  // namespace keel
