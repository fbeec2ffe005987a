#include "keel/train/evaluation.h"

#include <gtest/gtest.h>

#include "tests/support/reference_model.h"
#include "tests/support/tiny_rollouts.h"

namespace keel {
namespace {

TEST(WilsonInterval, EqualsThePublishedOnes) {
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

TEST(WilsonInterval, StaysWithinZeroAndOneAndKnowsNothingOfNothing) {
  EXPECT_EQ(wilson_interval(0, 0), std::pair(0.0, 1.0));
  for (const double count : {1.0, 7.0, 512.0}) {
    const double low = wilson_interval(0, count).first, high = wilson_interval(count, count).second;
    EXPECT_TRUE(low >= 0 && low < 1e-15) << low;
    EXPECT_TRUE(high <= 1 && high > 1 - 1e-15) << high;
  }
}

/// Worth 1 when the completion holds "f" and was stopped.
class LooksForF : public Task {
 public:
  Problem problem(uint64_t seed, uint64_t index, Split split) const override {
    EXPECT_EQ(seed, 9u);
    EXPECT_EQ(split, Split::kHeldOut);
    return {index % 2 == 0 ? "<bos> b" : "<bos> c d e", static_cast<int64_t>(index)};
  }
  Demonstration demonstrate(uint64_t, uint64_t, bool) const override { return {}; }
  double check(const Problem& problem, std::string_view completion) const override {
    EXPECT_EQ(problem.prompt, problem.answer.get<int64_t>() % 2 == 0 ? "<bos> b" : "<bos> c d e");
    return completion.find('f') != completion.npos && completion.ends_with("<eos>") ? 1 : 0;
  }
  Tokenizer tokenizer() const override { return tiny_tokenizer(); }
  int64_t completion_limit() const override { return 6; }
};

TEST(Evaluation, CountsWhatTheTaskAcceptsOnTheHeldOutProblems) {
  const LoadedModel policy{.model = tiny_model(tiny_config(3, 1, false)), .tokenizer = tiny_tokenizer()};
  const LooksForF task;
  const Evaluation result = evaluate(policy, task, "looks_for_f", 200, 6, 1.0, 9, 64);
  ASSERT_EQ(result.count, 200);
  ASSERT_EQ(result.rollouts.size(), 200u);
  int64_t right = 0, cut = 0, tokens = 0;
  for (const Rollout& rollout : result.rollouts) {
    const auto& drawn = rollout.tokens;
    const bool stopped = drawn.back() == 2, has_f = std::count(drawn.begin(), drawn.end(), 8) > 0;
    right += stopped && has_f;
    cut += !stopped;
    tokens += static_cast<int64_t>(drawn.size());
  }
  EXPECT_GT(right, 0);
  EXPECT_GT(cut, 0);
  EXPECT_NEAR(result.accuracy, static_cast<double>(right) / 200, 1e-12);
  EXPECT_NEAR(result.truncated, static_cast<double>(cut) / 200, 1e-12);
  EXPECT_NEAR(result.length_mean, static_cast<double>(tokens) / 200, 1e-9);
  EXPECT_EQ(std::pair(result.low, result.high), wilson_interval(static_cast<double>(right), 200));

  const Evaluation again = evaluate(policy, task, "looks_for_f", 200, 6, 1.0, 9, 1000);
  for (size_t i = 0; i < 200; ++i) EXPECT_EQ(again.rollouts[i].tokens, result.rollouts[i].tokens) << i;
}

}  // namespace
}  // namespace keel
