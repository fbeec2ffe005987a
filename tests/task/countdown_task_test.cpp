// Countdown: demonstrations get reward 1 and fit, texts survive the tokenizer, splits are disjoint, and only a single
// final answer gets a reward.

#include <gtest/gtest.h>

#include <set>

#include "keel/core/random.h"
#include "keel/task/countdown.h"
#include "keel/task/task_table.h"
#include "libs/hftext/tests/parity_rows.h"
#include "tests/support/effort.h"
#include "tests/support/errors.h"

namespace keel {
namespace {

std::unique_ptr<Task> countdown(int64_t difficulty = 1) {
  return make_task({.name = difficulty == 1 ? "countdown" : "countdown_" + std::to_string(difficulty)});
}

TEST(CountdownTask, DemonstrationsAreRightAndFit) {
  for (int64_t difficulty = 1; difficulty <= 5; ++difficulty) {
    const auto task = countdown(difficulty);
    const Tokenizer tokenizer = task->tokenizer();
    int64_t longest = 0;
    for (uint64_t index = 0; index < 3000; ++index) {
      const Demonstration demo = task->demonstrate(7, index, true);
      ASSERT_EQ(task->check(demo.problem, demo.completion), 1) << demo.problem.prompt << demo.completion;
      ASSERT_TRUE(demo.completion.ends_with("<eos>"));
      const std::vector<int32_t> prompt = tokenizer.encode(demo.problem.prompt);
      const std::vector<int32_t> tokens = encode_completion(tokenizer, demo.completion, *tokenizer.eos_id());
      ASSERT_EQ(tokenizer.decode(prompt, false), demo.problem.prompt);
      ASSERT_EQ(tokenizer.decode(tokens, false), demo.completion);
      ASSERT_EQ(tokens.back(), *tokenizer.eos_id());
      ASSERT_LE(static_cast<int64_t>(prompt.size()), 120) << demo.problem.prompt;
      longest = std::max(longest, static_cast<int64_t>(tokens.size()));
    }
    EXPECT_LE(longest, task->max_completion_tokens()) << difficulty;
    EXPECT_GE(2 * longest, task->max_completion_tokens()) << difficulty;
  }
}

TEST(CountdownTask, AcceptsTheAnswerFormatsOfPretrainedModels) {
  const auto task = countdown(2);
  const Demonstration demo = task->demonstrate(1, 5, false);
  const size_t mark = demo.completion.find("#### ");
  const std::string answer = demo.completion.substr(mark + 5, demo.completion.size() - mark - 10);
  for (const std::string& text :
       {"#### " + answer, "#### " + answer + "<|im_end|>", "#### " + answer + "</s>\n",
        "Well.\n\n\\boxed{" + answer + "}.", "The answer is " + answer + ".", "**Answer:** " + answer,
        "<answer>" + answer + "</answer>", answer, "I think so.\n#### $" + answer + "$<eos>",
        "Let me see: #### 5 no, wait\n#### " + answer + "\nDone."})
    EXPECT_EQ(task->check(demo.problem, text), 1) << text;
}

TEST(CountdownTask, GivesNoRewardUnlessThereIsOneFinalAnswer) {
  for (int64_t difficulty = 1; difficulty <= 5; ++difficulty) {
    const auto task = countdown(difficulty);
    for (uint64_t index = 0; index < 200; ++index) {
      const Demonstration demo = task->demonstrate(3, index, false);
      const Problem& problem = demo.problem;
      const size_t mark = demo.completion.find("#### ");
      const std::string answer = demo.completion.substr(mark + 5, demo.completion.size() - mark - 10);
      const std::string question = problem.prompt.substr(0, problem.prompt.find('\n'));
      for (const std::string& text :
           {std::string(), std::string(" "), std::string("<eos>"), std::string("####"), question, "#### " + question,
            demo.completion.substr(0, mark) + "<eos>x", "#### " + answer + " or " + answer + "1",
            "#### " + answer + ", 12345", "#### " + answer + " " + answer, answer + " #### 987654",
            "\\boxed{" + answer + "} \\boxed{98765}", "#### " + answer + answer, "#### 1" + answer + " 1",
            "#### not " + answer, "#### " + answer + "?", "#### ~" + answer, "\\boxed{" + answer,
            "####" + std::string(5000, '(') + answer})
        ASSERT_EQ(task->check(problem, text), 0) << problem.prompt << text;
    }
  }
}

TEST(CountdownTask, ChecksAnyTextWithoutThrowing) {
  const auto task = countdown(5);
  const Problem problem = task->problem(1, 1, Split::kTrain);
  RandomSequence draws(5, Stream::kShuffle, 1);
  constexpr std::string_view kPieces[] = {"#### ", "\\boxed{", "}",  "(", ")",  "[",      "]", ",",
                                          "=",     "/",        "0",  "9", "-",  "\xff",   " ", "\n",
                                          "x",     "<|",       "|>", "$", "\"", "\\text{"};
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint32_t size = draws.below(30); size > 0; --size) text += kPieces[draws.below(std::size(kPieces))];
    EXPECT_EQ(task->check(problem, text), 0) << text;
  }
  for (const Json& bad : {Json(), Json("12"), Json(1.5), Json::array(), Json::object(),
                          Json{{"numbers", 3}, {"target", "x"}}, Json{{"numbers", {"a"}}, {"target", 1}}})
    EXPECT_EQ(task->check({"", bad}, "#### 1"), 0) << bad;
  EXPECT_EQ(task->check(problem, std::string(1 << 20, '9')), 0);
  EXPECT_EQ(task->check(problem, "#### " + std::string(1 << 20, '(')), 0);
}

TEST(CountdownTask, DependsOnSeedAndIndexOnly) {
  const auto one = countdown(3), two = countdown(3);
  std::set<std::string> prompts;
  for (uint64_t index = 0; index < 100; ++index) {
    EXPECT_EQ(one->problem(3, index, Split::kTrain).prompt, two->problem(3, index, Split::kTrain).prompt);
    EXPECT_EQ(one->demonstrate(3, index, true).completion, two->demonstrate(3, index, false).completion);
    prompts.insert(one->problem(3, index, Split::kTrain).prompt);
    prompts.insert(one->problem(4, index, Split::kTrain).prompt);
  }
  EXPECT_GT(prompts.size(), 190u);
}

/// Identifies a problem up to the order of its numbers.
std::string essence(const Problem& problem) {
  if (!problem.answer.is_object()) return problem.prompt;
  Json answer = problem.answer;
  std::sort(answer["numbers"].begin(), answer["numbers"].end());
  return answer.dump();
}

TEST(CountdownTask, TrainingHasNoHeldOutProblem) {
  std::set<std::string> training, held_out;
  for (const int64_t difficulty : {1, 2}) {  // the smallest ones have the most repeated draws
    const auto task = countdown(difficulty);
    for (uint64_t index = 0; index < count<uint64_t>(1500, 4000); ++index) {
      training.insert(essence(task->problem(index % 3, index, Split::kTrain)));
      training.insert(essence(task->demonstrate(12345, index, true).problem));
      held_out.insert(essence(task->problem(index % 5, index, Split::kHeldOut)));
      held_out.insert(essence(task->problem(uint64_t{1} << 40, index, Split::kHeldOut)));
    }
  }
  for (const std::string& problem : held_out) ASSERT_FALSE(training.contains(problem)) << problem;
  EXPECT_GT(held_out.size(), 100u);
  EXPECT_GT(training.size(), 700u);
}

TEST(CountdownTask, HasFiveDifficulties) {
  for (const int64_t difficulty : {-1, 0, 6})
    EXPECT_THAT(error_of(2, [&] { countdown(difficulty); }), HasSubstr("is unknown"));
}

TEST(CountdownTask, RejectsTheSettingsOfChains) {
  EXPECT_THAT(error_of(2, [&] { make_task({.name = "countdown", .modulus = 7}); }), HasSubstr("task.modulus"));
  EXPECT_THAT(error_of(2, [&] { make_task({.name = "countdown", .error = 0.1}); }), HasSubstr("task.error"));
}

// Run with KEEL_PARITY_FOLDER set, then: tests/parity/tokenizer_parity.py FOLDER/countdown.
TEST(CountdownTask, WritesAFolderForTheTokenizerParityScript) {
  const char* folder = std::getenv("KEEL_PARITY_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "KEEL_PARITY_FOLDER is not set";
  const auto task = countdown(4);
  std::vector<std::string> texts;
  for (uint64_t index = 0; index < 100; ++index) {
    const Demonstration demo = task->demonstrate(0, index, true);
    texts.push_back(demo.problem.prompt + demo.completion);
  }
  write_parity_folder(std::filesystem::path(folder) / "countdown", task->tokenizer(), texts);
}

TEST(CountdownTask, NormalisesEquivalentAnswers) {
  for (const char* text : {"#### (3 + 7) * 2 = 20", "#### (3+7)*2<eos>", "\\boxed{(3+7) * 2}"})
    EXPECT_EQ(countdown()->answer(text), "(3+7)*2") << text;
  EXPECT_EQ(countdown()->answer(" <eos>"), "");
}

TEST(TaskTable, SuggestsNamesAndReplacementsOfRemovedTasks) {
  EXPECT_THAT(error_of(2, [] { make_task({.name = "cuntdown"}); }), HasSubstr("did you mean countdown?"));
  for (const char* removed : {"arithmetic", "modular", "equations", "letters", "strings", "lists"})
    EXPECT_THAT(error_of(2, [&] { make_task({.name = removed}); }), HasSubstr("examples/reasoning_gym/"));
}

TEST(ChooseSplit, HoldsOutOneInEight) {
  int64_t held_out = 0;
  for (int i = 0; i < 80000; ++i) held_out += choose_split("problem " + std::to_string(i)) == Split::kHeldOut;
  EXPECT_NEAR(static_cast<double>(held_out) / 80000, 0.125, 4 * 0.0012);  // four standard deviations
}

}  // namespace
}  // namespace keel
