#include "keel/reward/verdict.h"

#include <gtest/gtest.h>

#include "tests/support/reward_samples.h"

namespace keel {
namespace {

std::vector<Verdict> verdicts_of(const SampleBatch& batch, const RewardOptions& options) {
  const RewardSum reward = make_reward(options);
  return compute_verdicts(reward, batch.samples(), reward.score(batch.samples()));
}

std::vector<std::string> answers_by(const std::string& function, const SampleBatch& batch) {
  RewardOptions options;
  options.functions = {function};
  std::vector<std::string> texts;
  for (const Verdict& verdict : verdicts_of(batch, options)) texts.push_back(verdict.answer.text);
  return texts;
}

std::vector<bool> solved(const std::vector<Verdict>& verdicts) {
  std::vector<bool> result;
  for (const Verdict& verdict : verdicts) result.push_back(verdict.solved);
  return result;
}

TEST(RewardSum, IsBinaryIfEachPromptHasOneAnswerFunction) {
  const auto is_accuracy = [](std::vector<std::string> functions, std::vector<double> weights = {}) {
    RewardOptions options;
    options.functions = std::move(functions);
    options.weights = std::move(weights);
    return make_reward(options).is_binary();
  };
  for (const char* name : {"math", "exact", "numeric:0.1", "choice"}) EXPECT_TRUE(is_accuracy({name})) << name;
  EXPECT_TRUE(is_accuracy({"math @a,b", "choice @c"}));
  for (const char* other : {"stopped", "length:10", "tags:think", "pattern:x", "overlong:10,5"})
    EXPECT_FALSE(is_accuracy({other})) << other;
  EXPECT_FALSE(is_accuracy({"math", "stopped"}));
  EXPECT_FALSE(is_accuracy({"math", "exact"}));  // the sum can be 2
  EXPECT_FALSE(is_accuracy({"math @a,b", "choice @b"}));
  EXPECT_FALSE(is_accuracy({"math @a", "choice"}));
  EXPECT_FALSE(is_accuracy({"math"}, {0.5}));
}

TEST(Verdict, ExtractsTheAnswerWithTheFunctionThatScoresIt) {
  SampleBatch batch;
  for (const char* text : {"So it is\n\\boxed{(B)}", "#### 1,200.50", "The answer is \\frac{1}{2}.", " \n"})
    batch.add(text, "B");
  EXPECT_EQ(answers_by("math", batch), (std::vector<std::string>{"(B)", "1,200.50", "\\frac{1}{2}", ""}));
  EXPECT_EQ(answers_by("exact:ignore_case", batch), (std::vector<std::string>{"(b)", "1,200.50", "\\frac{1}{2}", ""}));
  EXPECT_EQ(answers_by("numeric", batch), (std::vector<std::string>{"", "1200.5", "0.5", ""}));
  EXPECT_EQ(answers_by("choice", batch), (std::vector<std::string>{"B", "", "", ""}));
  // Without a function that scores answers, the math verifier extracts them.
  EXPECT_EQ(answers_by("stopped", batch), answers_by("math", batch));
}

TEST(Verdict, NormalisesEqualNumbers) {
  SampleBatch batch;
  for (const char* text : {"12", "12.0", "$12", "1.2e1", "-0", "0"}) batch.add(text, "12");
  EXPECT_EQ(answers_by("numeric", batch), (std::vector<std::string>{"12", "12", "12", "12", "0", "0"}));
}

TEST(Verdict, DependsOnlyOnAnswerFunctionsForAnyWeights) {
  SampleBatch batch;
  batch.add("<t>\\boxed{7}</t>", "7").add("<t>\\boxed{8}</t>", "7").add("\\boxed{7}", "7").add("\\boxed{8}", "7");
  RewardOptions options;
  options.functions = {"tags:t", "math"};
  options.weights = {0.6, 0.3};
  const std::vector<Verdict> result = verdicts_of(batch, options);
  EXPECT_EQ(solved(result), (std::vector<bool>{true, false, true, false}));
  const std::vector<double> sums = {0.9, 0.6, 0.3, 0};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(result[i].reward.value(), sums[i], 1e-12) << i;
  options.functions = {"tags:t"};  // it scores no answers, so the sum decides
  options.weights = {0.6};
  EXPECT_EQ(solved(verdicts_of(batch, options)), (std::vector<bool>{true, true, false, false}));
  options.weights = {0.4};
  EXPECT_EQ(solved(verdicts_of(batch, options)), (std::vector<bool>(4, false)));
}

// A length penalty of training does not affect correctness or the mean of evaluations.
TEST(Verdict, ExcludesLengthPenalties) {
  SampleBatch batch;
  batch.add("\\boxed{7}", "7", "test", 20).add("\\boxed{8}", "7", "test", 20).add("\\boxed{7}", "7", "test", 2);
  RewardOptions options;
  options.overlong_buffer = 10;
  options.overlong_penalty = 0.9;
  const auto evaluated = [&](std::vector<std::string> functions) {
    options.functions = std::move(functions);
    const RewardSum reward = make_reward(options, {}, {}, /*max_new_tokens=*/20);
    return compute_verdicts(reward, batch.samples(), reward.score(batch.samples()));
  };
  const auto rewards = [](const std::vector<Verdict>& result) {
    std::vector<double> values;
    for (const Verdict& verdict : result) values.push_back(verdict.reward.value());
    return values;
  };
  EXPECT_EQ(solved(evaluated({"stopped"})), (std::vector<bool>{true, true, true}));  // it scores no answers
  EXPECT_EQ(rewards(evaluated({"stopped"})), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(solved(evaluated({"math"})), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(rewards(evaluated({"math"})), (std::vector<double>{1, 0, 1}));
  for (const Verdict& verdict : evaluated({"stopped @elsewhere"})) EXPECT_FALSE(verdict.reward);  // no function applies
  options.functions = {"math"};
  EXPECT_TRUE(make_reward(options, {}, {}, 20).is_binary());
  options.functions = {"overlong:20,10"};  // set by the user
  options.overlong_buffer = 0;
  EXPECT_EQ(make_reward(options).score(batch.samples()).totals[0], -1);
  EXPECT_EQ(verdicts_of(batch, options)[0].reward, -1);
}

TEST(Verdict, AcceptsAnyAnswerFunctionOfTheSource) {
  SampleBatch batch;
  batch.add("B", "B", "quiz").add("1/2", "0.5", "sums").add("C", "B", "quiz").add("0.5", "0.25", "sums");
  batch.add("hello", Json(), "talk");
  RewardOptions options;
  options.functions = {"choice @quiz", "exact @sums", "math @sums", "stopped"};
  const std::vector<Verdict> result = verdicts_of(batch, options);
  // 1/2 is not the text 0.5, but the same number; no function scores answers of "talk".
  EXPECT_EQ(solved(result), (std::vector<bool>{true, true, false, false, true}));
  EXPECT_FALSE(result[0].answer.is_math);
  EXPECT_FALSE(result[1].answer.is_math);  // the first function extracts it
  EXPECT_TRUE(result[4].answer.is_math);
}

TEST(Verdict, IsUnscoredWithoutAnAnswerReward) {
  SampleBatch batch;
  batch.add("7", "7").add("7", Json::object());  // math cannot use the second answer
  RewardOptions options;
  options.functions = {"math", "stopped"};
  options.on_error = "skip";
  const std::vector<Verdict> result = verdicts_of(batch, options);
  EXPECT_EQ(result[0].reward, 2);
  EXPECT_FALSE(result[1].reward);  // although it stopped
  EXPECT_FALSE(result[1].solved);
  options.functions = {"math @elsewhere"};
  for (const Verdict& verdict : verdicts_of(batch, options)) EXPECT_FALSE(verdict.reward || verdict.solved);
}

}  // namespace
}  // namespace keel
