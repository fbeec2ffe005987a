#include "keel/reward/scoring_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <set>

#include "keel/reward/reward_options.h"
#include "keel/rollout/engine.h"
#include "tests/support/errors.h"
#include "tests/support/no_threads.h"
#include "tests/support/reference_model.h"
#include "tests/support/score_in_order.h"
#include "tests/support/tiny_rollouts.h"

namespace keel {
namespace {

RewardSum sum_of(RewardFunction function, OnError on_error = OnError::kStop) {
  std::vector<RewardTerm> terms;
  terms.push_back({.name = "task", .weight = 1, .sources = {}, .reward = make_function_reward(std::move(function))});
  return RewardSum(std::move(terms), on_error);
}

/// A reward that depends on every character, including the stop token.
double check_sum(const Prompt& prompt, std::string_view text) {
  double sum = static_cast<double>(prompt.id);
  for (const char c : text) sum = sum * 0.75 + c;
  return sum;
}

class ScoringQueueTest : public testing::Test {
 protected:
  std::vector<Rollout> sampled(const std::function<void(std::span<Rollout>)>& on_group = {}) const {
    return engine_.generate(prompts_, request_, {.group = on_group});
  }
  ModelWeights model_ = tiny_model(tiny_config(6, 2, false));
  Tokenizer tokenizer_ = tiny_tokenizer();
  RolloutEngine engine_{SamplingModel({model_}), tokenizer_};
  std::vector<Prompt> prompts_ = tiny_prompts();
  SamplingRequest request_{.samples_per_prompt = 4, .max_new_tokens = 30, .seed = 5};
};

TEST_F(ScoringQueueTest, MatchesSequentialScoring) {
  const RewardSum reward = sum_of(check_sum);
  std::vector<Rollout> want = sampled();
  const ScoreReport after = score_in_order(want, prompts_, tokenizer_, reward);
  for (const size_t threads : {1, 4}) {
    ScoringQueue queue(reward, prompts_, tokenizer_, threads);
    std::vector<Rollout> got = sampled([&](std::span<Rollout> group) { queue.add(group); });
    const ScoreReport report = queue.finish(got);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].reward, want[i].reward) << i;
      EXPECT_EQ(got[i].reward, check_sum(prompts_[got[i].prompt], tokenizer_.decode(got[i].tokens.ids, false))) << i;
    }
    EXPECT_EQ(report.functions.at(0).count, 28);
    EXPECT_EQ(report.functions.at(0).sum, after.functions.at(0).sum);  // summed in the order of prompts
  }
}

TEST_F(ScoringQueueTest, ScoresInFinishWithoutThreads) {
  const RewardSum reward = sum_of(check_sum);
  std::vector<Rollout> rollouts = sampled();
  const NoThreads limit;
  ScoringQueue queue(reward, prompts_, tokenizer_, 4);
  EXPECT_EQ(queue.threads(), 0u);
  for (size_t begin = 0; begin < rollouts.size(); begin += 4) queue.add(std::span(rollouts).subspan(begin, 4));
  EXPECT_EQ(queue.finish(rollouts).functions.at(0).count, 28);
  for (const Rollout& rollout : rollouts)
    EXPECT_EQ(rollout.reward, check_sum(prompts_[rollout.prompt], tokenizer_.decode(rollout.tokens.ids, false)));
}

TEST_F(ScoringQueueTest, ReceivesCompleteGroupsDuringDecoding) {
  std::set<int64_t> arrived;
  size_t tokens_at_first = 0, tokens_at_last = 0;
  sampled([&](std::span<Rollout> group) {
    ASSERT_EQ(group.size(), 4u);
    const int64_t prompt = group.front().prompt;
    for (const Rollout& rollout : group) {
      EXPECT_EQ(rollout.prompt, prompt);
      EXPECT_TRUE(rollout.finish == Finish::kLength || rollout.tokens.ids.back() == 2);
      EXPECT_EQ(rollout.text, tokenizer_.decode(rollout.tokens.ids, true));
    }
    const Rollout* all = group.data() - prompt * 4;  // the groups are contiguous
    size_t tokens = 0;
    for (size_t i = 0; i < prompts_.size() * 4; ++i) tokens += all[i].tokens.size();
    if (arrived.empty()) tokens_at_first = tokens;
    tokens_at_last = tokens;
    EXPECT_TRUE(arrived.insert(prompt).second);
  });
  EXPECT_EQ(arrived.size(), prompts_.size());
  EXPECT_LT(tokens_at_first, tokens_at_last);
}

TEST_F(ScoringQueueTest, StopsAtAFailureAndNamesTheSample) {
  const RewardSum reward = sum_of([](const Prompt& prompt, std::string_view) { return prompt.id == 49 ? NAN : 1.0; });
  ScoringQueue queue(reward, prompts_, tokenizer_, 2);
  std::vector<Rollout> rollouts = sampled([&](std::span<Rollout> group) { queue.add(group); });
  EXPECT_THAT(error_of(5, [&] { queue.finish(rollouts); }), HasSubstr("of prompt 49 (test)"));
}

TEST_F(ScoringQueueTest, ScoresNoGroupAfterCancellation) {
  std::atomic<int> scored = 0;
  const RewardSum reward = sum_of([&](const Prompt&, std::string_view) { return static_cast<double>(++scored); });
  std::vector<Rollout> rollouts = sampled();
  ScoringQueue queue(reward, prompts_, tokenizer_, 1, [&] {
    if (scored >= 8) throw std::logic_error("enough");
  });
  for (size_t begin = 0; begin < rollouts.size(); begin += 4) queue.add(std::span(rollouts).subspan(begin, 4));
  EXPECT_THROW(queue.finish(rollouts), std::logic_error);
  EXPECT_EQ(scored, 8);
}

TEST_F(ScoringQueueTest, DiscardsPendingGroupsOnDestruction) {
  std::atomic<int> scored = 0;
  const RewardSum reward = sum_of([&](const Prompt&, std::string_view) { return static_cast<double>(++scored); });
  std::vector<Rollout> rollouts = sampled();
  {
    ScoringQueue queue(reward, prompts_, tokenizer_, 2);
    for (size_t begin = 0; begin < rollouts.size(); begin += 4) queue.add(std::span(rollouts).subspan(begin, 4));
  }
  EXPECT_LE(scored, 28);
}

TEST_F(ScoringQueueTest, MarksUnscoredRollouts) {
  const RewardSum reward =
      sum_of([](const Prompt&,
                std::string_view text) { return text.starts_with("a") ? NAN : static_cast<double>(text.size()); },
             OnError::kSkip);
  std::vector<Rollout> rollouts(4);
  const char* texts[] = {"b", "a", "b c d", "a b"};
  for (size_t i = 0; i < 4; ++i) {
    rollouts[i].tokens.ids = tokenizer_.encode(texts[i]);
    rollouts[i].text = texts[i];
    rollouts[i].id = i;
  }
  const ScoreReport report = score_in_order(rollouts, prompts_, tokenizer_, reward);
  const std::vector<std::pair<bool, double>> want = {{true, 1}, {false, 0}, {true, 5}, {false, 0}};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(std::pair(rollouts[i].has_reward, rollouts[i].reward), want[i]) << i;
  EXPECT_EQ(report.unscored, 2);
  EXPECT_EQ(report.failures.size(), 2u);
}

}  // namespace
}  // namespace keel
