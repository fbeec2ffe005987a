#include "keel/train/evaluation_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "tests/support/errors.h"

namespace keel {
namespace {

TEST(PassAtK, EqualsTheShareOfAllSubsetsWithASolvedSample) {
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

TEST(PassAtK, StaysExactWhereBinomialsOverflow) {
  EXPECT_NEAR(pass_at_k(10000, 1, 5000), 0.5, 1e-12);  // one solved sample is in half of the halves
  EXPECT_NEAR(pass_at_k(100000, 3, 1), 3e-5, 1e-12);   // pass@1 is the share of the solved
  EXPECT_NEAR(pass_at_k(2000, 2, 1000), 1 - 1000.0 * 999 / (2000.0 * 1999), 1e-12);
  EXPECT_EQ(pass_at_k(1000, 501, 500), 1);
  EXPECT_EQ(pass_at_k(1000, 0, 500), 0);
}

TEST(AnswerClasses, PutAnswersTogetherThatMeanTheSame) {
  const std::vector<std::string> answers = {"1/2", "", "0.5", "\\frac{1}{2}", "2", "abc", "x = 2", "abc", "abd", ""};
  EXPECT_EQ(answer_classes(answers), (std::vector<int64_t>{0, -1, 0, 0, 1, 2, 1, 2, 3, -1}));
}

TEST(MajorityAtK, IsWhatAHandCountSays) {
  const std::vector<int64_t> classes = {0, 1, 1, 2, 0, -1, -1, 0};
  const std::vector<double> rewards = {0, 1, 1, 0, 0, 0, 0, 0};
  EXPECT_EQ(majority_at_k(classes, rewards, 8), 0);    // 0 has three votes, 1 has two
  EXPECT_EQ(majority_at_k(classes, rewards, 4), 0.5);  // {0 1 1 2}: 1 wins; {0 - - 0}: 0 wins
  EXPECT_EQ(majority_at_k(classes, rewards, 3),
            0.5);  // {0 1 1}, {2 0 -}: a tie, 2 came first; the last two are left out
  EXPECT_EQ(majority_at_k(classes, rewards, 2), 0.25);  // {0 1}: 0 came first; {1 2}: 1; {0 -}; {- 0}
  EXPECT_EQ(majority_at_k(classes, rewards, 1), 0.25);  // the share of solved samples
  EXPECT_EQ(majority_at_k(std::vector<int64_t>{-1, -1}, std::vector<double>{1, 1}, 2), 0);  // nobody voted
  // Of samples with one answer and different rewards, the first decides.
  EXPECT_EQ(majority_at_k(std::vector<int64_t>{0, 0}, std::vector<double>{1, 0}, 2), 1);
  EXPECT_EQ(majority_at_k(std::vector<int64_t>{0, 0}, std::vector<double>{0, 1}, 2), 0);
}

// Over all orders of the samples, the mean of the blocks is the mean over all subsets, in each of which answers with
// equally many votes share the win.
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
      const int most = *std::max_element(votes, votes + 4);
      double winners = 0, solved = 0;
      for (int answer = 0; answer < 4; ++answer) {
        winners += votes[answer] == most;
        solved += votes[answer] == most && (answer == 1 || answer == 3);
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

TEST(Bootstrap, IsCloseToTheNormalIntervalOfManyPrompts) {
  std::vector<double> values(400, 0.0);
  std::fill_n(values.begin(), 100, 1.0);
  const Estimate estimate = bootstrap_mean(values, 3);
  const double deviation = std::sqrt(0.25 * 0.75 / 400);  // 0.0217
  EXPECT_EQ(estimate.mean, 0.25);
  EXPECT_NEAR(estimate.low, 0.25 - 1.96 * deviation, 0.006);
  EXPECT_NEAR(estimate.high, 0.25 + 1.96 * deviation, 0.006);
}

// The mean of two draws from {0, 1} is 0 or 1 a quarter of the time each, so both ends are inside those quarters.
TEST(Bootstrap, OfTwoValuesSpansBoth) {
  const Estimate estimate = bootstrap_mean(std::vector<double>{0, 1}, 1);
  EXPECT_EQ(estimate.mean, 0.5);
  EXPECT_EQ(estimate.low, 0);
  EXPECT_EQ(estimate.high, 1);
}

TEST(Bootstrap, OfEqualValuesIsAPointAndOfOthersAFunctionOfTheSeed) {
  const Estimate equal = bootstrap_mean(std::vector<double>(50, 0.5), 1);
  EXPECT_EQ(equal.low, 0.5);
  EXPECT_EQ(equal.high, 0.5);
  std::vector<double> values;
  for (int i = 0; i < 37; ++i) values.push_back(std::sin(i));
  EXPECT_EQ(bootstrap_mean(values, 1).low, bootstrap_mean(values, 1).low);
  EXPECT_NE(bootstrap_mean(values, 1).low, bootstrap_mean(values, 2).low);
  EXPECT_EQ(bootstrap_mean({}, 1).mean, 0);
}

std::vector<JudgedPrompt> two_sources() {
  return {{"math", {1, 0, 0, 0}, {"4", "5", "5", "6"}},
          {"code", {0.25, 0.25, 0.25, 0.25}, {"", "", "", ""}},
          {"math", {1, 1, 0, 1}, {"7", "7.0", "8", "x = 7"}}};
}

TEST(EvaluationStatistics, AreByHandThese) {
  const std::vector<int64_t> ks = {1, 2, 4};
  const std::vector<SourceStatistics> result = evaluation_statistics(two_sources(), ks, 5);
  ASSERT_EQ(result.size(), 3u);
  const auto means = [](const SourceStatistics& source) {
    std::vector<double> values;
    for (const auto& measure : source.measures) values.push_back(measure.estimate.mean);
    return values;
  };
  std::vector<std::string> names;
  for (const auto& measure : result[0].measures) names.push_back(measure.name);
  EXPECT_EQ(names, (std::vector<std::string>{"avg@4", "pass@1", "pass@2", "pass@4", "maj@2", "maj@4"}));
  EXPECT_EQ(result[0].source, "math");
  EXPECT_EQ(result[0].prompts, 2);
  EXPECT_EQ(result[0].samples, 4);
  // pass@2: 1 - C(3,2)/C(4,2) = 1/2 and 1. maj@2: {4 5} 4 is first, {5 6} wrong: 1/2; {7 7} right, {8 7} 8 is first:
  // 1/2.
  EXPECT_EQ(means(result[0]), (std::vector<double>{0.5, 0.5, 0.75, 1, 0.5, 0.5}));
  EXPECT_EQ(means(result[1]), (std::vector<double>{0.25, 0, 0, 0, 0, 0}));  // half a point would be solved
  EXPECT_EQ(result[2].source, "all");
  EXPECT_NEAR(means(result[2])[0], 1.25 / 3, 1e-12);
  const std::vector<JudgedPrompt> one = {two_sources()[0]};
  EXPECT_EQ(evaluation_statistics(one, ks, 5).size(), 1u);  // one source is all
  EXPECT_TRUE(evaluation_statistics({}, ks, 5).empty());
}

TEST(EvaluationStatistics, BecomeATreeAndATable) {
  const std::vector<int64_t> ks = {1};
  const std::vector<SourceStatistics> result = evaluation_statistics(two_sources(), ks, 5);
  const Json tree = to_json(result);
  EXPECT_EQ(tree["math"]["pass@1"]["mean"], 0.5);
  EXPECT_EQ(tree["code"]["prompts"], 1);
  EXPECT_LE(tree["all"]["avg@4"]["low"], tree["all"]["avg@4"]["mean"]);
  EXPECT_LE(tree["all"]["avg@4"]["mean"], tree["all"]["avg@4"]["high"]);
  const std::string table = to_table(result);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 7);
  EXPECT_NE(table.find("math          2  pass@1    0.5000   ["), std::string::npos) << table;
}

TEST(EvaluationStatistics, RefuseWhatDoesNotFitTogether) {
  const std::vector<JudgedPrompt> uneven = {{"a", {1, 0}, {"1", "2"}}, {"a", {1}, {"1"}}};
  EXPECT_NE(error_of(70, [&] { evaluation_statistics(uneven, std::vector<int64_t>{1}, 0); }).find("wanted 2"),
            std::string::npos);
  EXPECT_NE(error_of(70, [&] { evaluation_statistics(two_sources(), std::vector<int64_t>{5}, 0); }).find("k is 5"),
            std::string::npos);
}

}  // namespace
}  // namespace keel
