#include "keel/task/countdown.h"

#include <gtest/gtest.h>

#include "keel/task/expression.h"

namespace keel {
namespace {

/// Returns whether all numbers together can make the target, by exhaustive search.
bool solvable(const std::vector<double>& numbers, double target) {
  if (numbers.size() == 1) return numbers[0] == target;
  for (size_t i = 0; i < numbers.size(); ++i) {
    for (size_t j = 0; j < numbers.size(); ++j) {
      if (i == j) continue;
      std::vector<double> rest;
      for (size_t k = 0; k < numbers.size(); ++k)
        if (k != i && k != j) rest.push_back(numbers[k]);
      const double a = numbers[i], b = numbers[j];
      for (const double result : {a + b, a - b, a * b, b == 0 ? -1.0 : a / b}) {
        if (result <= 0 || result != static_cast<double>(static_cast<int64_t>(result))) continue;  // integers suffice
        rest.push_back(result);
        if (solvable(rest, target)) return true;
        rest.pop_back();
      }
    }
  }
  return false;
}

TEST(Countdown, EveryProblemHasASolution) {
  constexpr int kProblems[] = {1000, 1000, 300, 40, 5};
  for (int64_t difficulty = 1; difficulty <= 5; ++difficulty) {
    const CountdownTask task(difficulty);
    for (int index = 0; index < kProblems[difficulty - 1]; ++index) {
      const Problem problem = task.problem(11, index, index % 2 ? Split::kHeldOut : Split::kTrain);
      const auto numbers = problem.answer["numbers"].get<std::vector<double>>();
      ASSERT_TRUE(solvable(numbers, problem.answer["target"].get<double>())) << problem.prompt;
    }
  }
  EXPECT_FALSE(solvable({1, 1, 1}, 7));
  EXPECT_TRUE(solvable({3, 7, 25}, 46));
}

double reward(const std::string& text) {
  static const CountdownTask kTask(1);
  const Problem problem{"", {{"numbers", {3, 7, 25}}, {"target", 46}}};  // 3 * 7 + 25
  return kTask.check(problem, text);
}

TEST(Countdown, AcceptsAllNotationsOfASolution) {
  for (const char* text : {"#### 3 * 7 + 25", "#### 25+7*3", "#### (3 * 7) + 25 = 46", "\\boxed{25 + 3 \\times 7}",
                           "\\boxed{(3)*(7)+(25)}", "25 + 3 * 7 = 46", "The answer is 25 + 3 × 7.",
                           "#### ((25)) + ((3 * 7))<|eot_id|>", "\\boxed{25 + 3 \\cdot 7 = 46}", "#### $25 + 3 * 7$"})
    EXPECT_EQ(reward(text), 1) << text;
}

TEST(Countdown, RejectsTricks) {
  for (const std::string text :
       {"46", "46 = 46", "25 + 21", "3 * 7", "25 + 25 - 7 + 3", "3 * 7 + 25 + 3 - 3", "3 * 7 + 25 * 1",
        "3 * 7 + 25 + 0", "3 * 7 + 25 = 47", "37 + 25 - 16", "3 * 7 + 25 / (3 - 3)", "3 / 0 + 25",
        "46 + 0 * (3 + 7 + 25)", "3! * 7 + 25 - 21"})  // other numbers
    EXPECT_EQ(reward("#### " + text), 0) << text;
  for (const std::string text :
       {"3 * 7 + 25, 3 * 7 + 25", "3 * 7 + 25 or 3 + 7 + 25", "3 7 + 25", "(3)(7) + 25", "3 * 7 + 025", "3 * 7 + 25.0",
        "+3 * 7 + 25", "--3 * 7 + 25", "3 ** 7 + 25", "(3 * 7 + 25", "3 * 7 + 25)", "3 * 7 + ", "* 3 * 7 + 25",
        "() 3 * 7 + 25", "3 * 7 + 25 ; 1", "max(3, 7) * 3 + 25", "3 * 7 + 25 #### 3 + 7 + 25"})  // other notations
    EXPECT_EQ(reward("#### " + text), 0) << text;
  EXPECT_EQ(reward("#### " + std::string(40, '(') + "3 * 7 + 25" + std::string(40, ')')), 1);
  EXPECT_EQ(reward("#### " + std::string(400, '(') + "3 * 7 + 25" + std::string(400, ')')), 0);
  EXPECT_EQ(reward("#### " + std::string(1 << 20, '(') + "3 * 7 + 25" + std::string(1 << 20, ')')), 0);
}

TEST(Expression, IsEvaluatedInExactFractions) {
  struct Row {
    const char* text;
    int64_t numerator, denominator;
  };
  for (const Row& row : {Row{"1 / 3 + 1 / 6", 1, 2}, Row{"1 - 2 - 3", -4, 1}, Row{"8 / 4 / 2", 1, 1},
                         Row{"2 * (3 - 5)", -4, 1}, Row{"1 / (2 - 5)", -1, 3}, Row{"7", 7, 1}, Row{"0 / 5", 0, 1},
                         Row{"2 + 3 * 4", 14, 1}, Row{"6 ÷ 4 − 1", 1, 2}}) {
    const std::optional<ExpressionValue> value = evaluate_expression(row.text, 10);
    ASSERT_TRUE(value) << row.text;
    EXPECT_EQ(value->numerator, row.numerator) << row.text;
    EXPECT_EQ(value->denominator, row.denominator) << row.text;
  }
  EXPECT_EQ(evaluate_expression("9 - (4 + 4)", 3)->numbers, (std::vector<int64_t>{9, 4, 4}));
  EXPECT_FALSE(evaluate_expression("9 - (4 + 4)", 2));
  EXPECT_FALSE(evaluate_expression("1 / (2 - 2)", 3));
}

TEST(Expression, RejectsValuesBeyond64Bits) {
  std::string product = "999999";
  for (int i = 0; i < 20; ++i) product += " * 999999";
  EXPECT_FALSE(evaluate_expression(product, 100));
  std::string sum = "1 / 999999";
  for (int i = 0; i < 20; ++i) sum += " + 1 / " + std::to_string(999998 - i);
  EXPECT_FALSE(evaluate_expression(sum, 100));
}

}  // namespace
}  // namespace keel
