#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "keel/core/files/file.h"
#include "keel/core/shell_words.h"
#include "libs/hftext/characters/unicode.h"
#include "tests/support/errors.h"
#include "tests/support/reward_samples.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

TEST(BuiltInRewards, MathUsesTheVerifier) {
  SampleBatch batch;
  batch.add("so \\boxed{0.5}", "\\frac12").add("#### 41", "#### 42").add("the answer is 7", 7);
  EXPECT_EQ(score(batch, "math"), (Rewards{1, 0, 1}));
}

TEST(BuiltInRewards, ExactRequiresTheSameText) {
  SampleBatch batch;
  batch.add("<answer> Paris </answer>", "Paris")
      .add("paris", "Paris")
      .add("Paris\n", "Paris")
      .add("Paris, France", "Paris");
  EXPECT_EQ(score(batch, "exact"), (Rewards{1, 0, 1, 0}));
  EXPECT_EQ(score(batch, "exact:ignore_case"), (Rewards{1, 1, 1, 0}));
}

TEST(BuiltInRewards, IgnoreCaseFoldsUnicode) {
  if (!text::has_unicode_tables()) GTEST_SKIP() << "this build has no utf8proc";
  SampleBatch batch;
  batch
      .add("\u00c9COLE", "\u00e9cole")                  // with an accent
      .add("E\u0301cole", "\u00e9cole")                 // in two characters
      .add("\u0394\u039f\u03a3", "\u03b4\u03bf\u03c2")  // a final sigma
      .add("STRASSE", "Stra\u00dfe")
      .add("ecole", "\u00e9cole")
      .add("\xff", "\u00e9");
  EXPECT_EQ(score(batch, "exact:ignore_case"), (Rewards{1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(score(batch, "exact"), (Rewards{0, 0, 0, 0, 0, 0}));
}

TEST(BuiltInRewards, NumericComparesTheLastNumberWithinATolerance) {
  SampleBatch batch;
  batch.add("#### $1,234.50", 1234.5)
      .add("#### 1235 dollars", 1234.5)
      .add("#### -3", 3)
      .add("#### -3", -3)
      .add("#### 1e3", "1000")
      .add("no number", 1)
      .add("#### 1.2.3", 1.2)
      .add("#### 3/4", "1/4")
      .add("#### 0.5", "1/2");
  EXPECT_EQ(score(batch, "numeric"), (Rewards{1, 0, 0, 1, 1, 0, 0, 0, 1}));
  EXPECT_EQ(score(batch, "numeric:0.01"), (Rewards{1, 1, 0, 1, 1, 0, 0, 0, 1}));
}

TEST(BuiltInRewards, ChoiceReadsCommonSpellingsOfALetter) {
  SampleBatch batch;
  for (const char* right : {"The answer is (B).", "\\boxed{B}", "\\boxed{\\text{B}}", "answer: b",
                            "<answer>B) 12</answer>", "Answer: **B**", "B", "The correct answer is option B."})
    batch.add(right, "B");
  batch.add("The answer is C", "B")
      .add("The answer is Bob", "B")
      .add("", "B")
      .add("\\boxed{B}", 1)
      .add("\\boxed{B}", 0);
  batch.add("\\boxed{B}", "(B) twelve").add("\\boxed{A, B}", "A").add("The answer is A or B.", "A");
  EXPECT_EQ(score(batch, "choice"), (Rewards{1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0}));
}

// CSV values are strings, so an index in CSV is a string of digits.
TEST(BuiltInRewards, ChoiceIndexIsANumberNotAString) {
  SampleBatch batch;
  batch.add("C", 2).add("C", "2").add("B", "2").add("A", Json{"2", "A"});
  EXPECT_EQ(score(batch, "choice"), (Rewards{1, 0, 0, 1}));
}

TEST(BuiltInRewards, AnswerThatIsNotTextIsAnError) {
  SampleBatch batch;
  batch.add("1", Json{{"a", 1}});
  EXPECT_THAT(error_of(5, [&] { score(batch, "math"); }),
              AllOf(HasSubstr("prompt 100"), HasSubstr("its answer is \"{\\\"a\\\":1}\"")));
}

TEST(BuiltInRewards, TagsRequireEachTagOnceAndInOrder) {
  SampleBatch batch;
  batch.add("<think>a</think>\n<answer>b</answer>\n")
      .add("<think>a</think> so <answer>b</answer>")
      .add("<answer>b</answer><think>a</think>")
      .add("<think>a</think><think>c</think><answer>b</answer>")
      .add("<think>a<answer>b</answer></think>")
      .add("<think>a</think>")
      .add("")
      .add("</think><think></answer><answer>");
  EXPECT_EQ(score(batch, "tags:think,answer"), (Rewards{1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(score(batch, "tags:think,*"), (Rewards{1, 1, 0, 0, 1, 1, 0, 0}));
}

TEST(BuiltInRewards, PatternMustMatchTheWholeCompletion) {
  SampleBatch batch;
  batch.add("<t>one\ntwo</t>").add("<t>one</t> more").add("<t>\xff</t>").add("");
  EXPECT_EQ(score(batch, "pattern:<t>.*</t>"), (Rewards{1, 0, 1, 0}));
  EXPECT_EQ(score(batch, "pattern:.*</t>|"), (Rewards{1, 0, 1, 1}));
}

TEST(BuiltInRewards, PatternWithExcessiveBacktrackingFails) {
  SampleBatch batch;
  std::string nearly(200, 'a');
  batch.add(nearly += 'b');
  EXPECT_EQ(score(batch, "pattern:(a+)+(a+)+(a+)+"), (Rewards{0}));
}

TEST(BuiltInRewards, LengthPenaltyMatchesDapo) {
  SampleBatch batch;
  for (const int tokens : {0, 60, 80, 90, 100, 130}) batch.add("x", Json(), "test", tokens);
  EXPECT_EQ(score(batch, "overlong:100,20"), (Rewards{0, 0, 0, -0.5, -1, -1}));
  EXPECT_EQ(score(batch, "length:100"), (Rewards{-0.0, -0.6, -0.8, -0.9, -1, -1.3}));
  batch.last().stopped = false;
  EXPECT_EQ(score(batch, "stopped"), (Rewards{1, 1, 1, 1, 1, 0}));
  batch.last().tokens.reset();
  for (const char* function : {"length:100", "overlong:100,20"}) {
    EXPECT_THAT(error_of(5, [&] { score(batch, function); }), HasSubstr("add \"completion_ids\""));
  }
}

// verl 0.9.1, workers/reward_manager/dapo.py: score + min(-(length - (longest - len)) / len * penalty_factor, 0).
TEST(BuiltInRewards, OverlongBufferAddsAFunctionWeightedByThePenalty) {
  SampleBatch batch;
  for (const int tokens : {60, 80, 90, 100}) batch.add("3", "3", "test", tokens);
  RewardOptions options;
  options.overlong_buffer = 20;
  options.overlong_penalty = 0.5;
  const RewardSum sum = make_reward(options, {}, {}, /*max_new_tokens=*/100);
  EXPECT_EQ(sum.score(batch.samples()).totals, (Rewards{1, 1, 0.75, 0.5}));
  ASSERT_EQ(sum.terms().size(), 2u);
  EXPECT_EQ(sum.terms()[0].name, "math");  // the default for data
  EXPECT_EQ(sum.terms()[1].name, "overlong");
  EXPECT_TRUE(sum.is_binary());  // the penalty is ignored
  EXPECT_THAT(error_of(2, [&] { make_reward(options); }), HasSubstr("add overlong:MAX_LENGTH,BUFFER"));
}

TEST(BuiltInRewards, AnyOfSeveralAnswersIsCorrect) {
  SampleBatch batch;
  const Json words = {"3", "three"}, mixed = {3.5, 4};
  batch.add("3", words)
      .add("three", words)
      .add("4", words)
      .add("7/2", mixed)
      .add("4", mixed)
      .add("3", Json::array({3}));
  EXPECT_EQ(score(batch, "math"), (Rewards{1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(score(batch, "exact"), (Rewards{1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(score(batch, "numeric"), (Rewards{1, 0, 0, 1, 1, 1}));
  SampleBatch letters;
  letters.add("(B)", Json{"A", 1}).add("(C)", Json{"A", 1});
  EXPECT_EQ(score(letters, "choice"), (Rewards{1, 0}));
}

TEST(BuiltInRewards, AnswersMayBeNumbers) {
  SampleBatch batch;
  batch.add("3", 3).add("3.0", 3).add("3.5", 3.5).add("7/2", 3.5).add("-2", -2).add("0.1", 0.1).add("10^{22}", 1e22);
  EXPECT_EQ(score(batch, "math"), (Rewards{1, 1, 1, 1, 1, 1, 1}));
}

TEST(RewardSum, RejectsAnAnswerThatAFunctionCannotUse) {
  RewardOptions options;
  options.functions = {"math @a", "code @b", "stopped"};
  const RewardSum sum = make_reward(options);
  const std::string head = "the reward \"math @a\" cannot score this row: ";
  EXPECT_EQ(sum.answer_error("3", "a"), "");
  EXPECT_EQ(sum.answer_error(Json{"3", 3.5}, "a"), "");
  EXPECT_EQ(sum.answer_error(nullptr, "a"), head + "it has no answer");
  EXPECT_EQ(sum.answer_error(" ", "a"), head + "its answer is empty");
  EXPECT_EQ(sum.answer_error(nullptr, "c"), "");
  const std::string form = "; expected a text, a number, or a list of these";
  EXPECT_EQ(sum.answer_error(Json::array(), "a"), head + "its answer is \"[]\"" + form);
  EXPECT_EQ(sum.answer_error(Json{{"x", 1}}, "a"), head + R"(its answer is "{\"x\":1}")" + form);
  EXPECT_EQ(sum.answer_error(Json{"3", nullptr}, "a"), head + R"(its answer is "[\"3\",null]")" + form);
  const std::string tests = head + "its answer is program tests; use reward.functions: [code]";
  for (const char* answer :
       {R"({"inputs": ["1 2\n"], "outputs": ["3\n"]})", R"(["assert add(1,2)==3"])", "assert f(1) == 2"})
    EXPECT_EQ(sum.answer_error(answer, "a"), tests) << answer;
  EXPECT_EQ(sum.answer_error(Json{"assert f(1) == 2"}, "a"), tests);
  for (const char* answer : {"{1, 2}", "{}", "[1, 2]", "assertion", R"(["a", "b"])"})
    EXPECT_EQ(sum.answer_error(answer, "a"), "") << answer;
  EXPECT_EQ(sum.answer_error(nullptr, "b"),
            "the reward \"code @b\" cannot score this row: the prompt's answer holds no tests");
}

TEST(RewardSum, RejectsAnAnswerThatNoCompletionCanMatch) {
  RewardOptions options;
  options.functions = {"choice @letters", "numeric @numbers", "exact @texts", "math @texts"};
  const RewardSum sum = make_reward(options);
  const std::string letters = R"(the reward "choice @letters" could never find a completion correct: its answer is )",
                    no_letter = "; expected a letter, or an integer from 0 (A) to 25 that is not a string",
                    numbers = R"(the reward "numeric @numbers" could never find a completion correct: its answer is )",
                    no_number = "; expected a number";
  for (const char* answer : {"Paris", "4.0", "A or B", "2", "26", "-1"})
    EXPECT_EQ(sum.answer_error(answer, "letters"), letters + '"' + answer + '"' + no_letter);
  EXPECT_EQ(sum.answer_error(26, "letters"), letters + "\"26\"" + no_letter);
  EXPECT_EQ(sum.answer_error(Json{"Paris", "Rome"}, "letters"), letters + R"("[\"Paris\",\"Rome\"]")" + no_letter);
  for (const Json& answer : {Json("B"), Json("(B)"), Json("B."), Json("b"), Json("The answer is B"), Json(0), Json(25),
                             Json("\\boxed{B}"), Json{"Paris", "B"}})
    EXPECT_EQ(sum.answer_error(answer, "letters"), "") << answer;
  for (const char* answer : {"hello", "(1, 2)", "3x"})
    EXPECT_EQ(sum.answer_error(answer, "numbers"), numbers + '"' + answer + '"' + no_number);
  for (const Json& answer : {Json("1,234"), Json("$5"), Json("50%"), Json(3.5), Json("so she has 3 cats\n#### 3"),
                             Json("-1/2"), Json("5 cm"), Json("\\boxed{\\frac12}"), Json{"three or so", "3"}})
    EXPECT_EQ(sum.answer_error(answer, "numbers"), "") << answer;
  for (const char* answer : {"Paris", "(1, 2)"}) EXPECT_EQ(sum.answer_error(answer, "texts"), "");
  // One function that can find an answer correct is enough; `stopped` scores no answers.
  options.functions = {"numeric", "choice", "exact"};
  EXPECT_EQ(make_reward(options).answer_error("Paris", ""), "");
  options.functions = {"numeric", "choice", "stopped"};
  EXPECT_EQ(make_reward(options).answer_error("B", ""), "");
  EXPECT_THAT(make_reward(options).answer_error("Paris", ""), HasSubstr("reward \"numeric\""));
}

TEST(RewardSum, WarnsAboutUnmatchedSources) {
  const auto warnings = [](std::vector<std::string> functions) {
    RewardOptions options;
    options.functions = std::move(functions);
    return make_reward(options).source_warnings({"openai/gsm8k", "aime"});
  };
  using Sentences = std::vector<std::string>;
  EXPECT_EQ(warnings({"math", "length:9 @aime"}), Sentences{});
  EXPECT_EQ(warnings({"math", "length:9 @gsm8k"}),
            Sentences{"reward \"length:9 @gsm8k\" scores no row: no row has the source after its @; the sources are "
                      "\"aime\", \"openai/gsm8k\""});
  EXPECT_EQ(warnings({"math @aime"}),
            Sentences{"no reward function scores the rows from \"openai/gsm8k\"; they are not trained on"});
  const std::vector<std::string> without_rows = {"math @gsm8k", "stopped @x"};
  EXPECT_THAT(error_of(2, [&] { warnings(without_rows); }),
              HasSubstr("no function scores any row: reward \"math @gsm8k\""));
}

TEST(RewardSum, MakesRepeatedNamesDistinct) {
  RewardOptions options;
  options.functions = {"math", "stopped", "math", "math"};
  std::vector<std::string> names;
  const RewardSum sum = make_reward(options);
  for (const RewardTerm& term : sum.terms()) names.push_back(term.name);
  EXPECT_EQ(names, (std::vector<std::string>{"math", "stopped", "math (2)", "math (3)"}));
}

TEST(RewardSum, SumsApplicableFunctionsByWeight) {
  SampleBatch batch;
  batch.add("4", 4, "gsm8k").add("5", 4, "gsm8k").add("(B)", "B", "mmlu").add("4", 4, "other");
  RewardOptions options;
  options.functions = {"math @gsm8k", "choice @mmlu,arc", "length:10 @gsm8k,mmlu"};
  options.weights = {1, 2, 0.5};
  const RewardResult result = score(batch, options);
  EXPECT_EQ(result.totals, (Rewards{1 - 0.15, -0.15, 2 - 0.15, std::nullopt}));
  EXPECT_EQ(result.terms[1], (Rewards{std::nullopt, std::nullopt, 1, std::nullopt}));
}

TEST(RewardSum, HandlesANanRewardByOnError) {
  SampleBatch batch;
  batch.add("fine").add("bad");
  const RewardFunction task = [](const Prompt&, std::string_view text) {
    return text == "bad<eos>" ? std::nan("") : 2.0;
  };
  RewardOptions options;
  options.functions = {"task", "stopped"};
  const auto score_with = [&](const char* on_error) {
    options.on_error = on_error;
    return make_reward(options, task).score(batch.samples());
  };
  EXPECT_THAT(error_of(5, [&] { score_with("stop"); }),
              HasSubstr("reward \"task\" failed on rollout 1 of prompt 101 (test), \"bad\": the reward is nan"));
  EXPECT_EQ(score_with("zero").totals, (Rewards{3, 1}));
  EXPECT_EQ(score_with("zero").terms[0], (Rewards{2, 0}));
  EXPECT_EQ(score_with("skip").terms[0], (Rewards{2, std::nullopt}));
  EXPECT_EQ(score_with("skip").failures.size(), 1u);
}

TEST(RewardOptions, RejectInvalidFunctions) {
  const auto refused = [](std::vector<std::string> functions, std::vector<double> weights = {}) {
    RewardOptions options;
    options.functions = std::move(functions);
    options.weights = std::move(weights);
    return error_of(2, [&] { make_reward(options); });
  };
  const auto expect = [](const std::string& text, const char* part) { EXPECT_THAT(text, HasSubstr(part)); };
  expect(refused({"maths"}), "did you mean math?");
  expect(refused({"math:x"}), "unknown argument \"x\" (expected none)");
  expect(refused({"task"}), "no built-in task is used");
  expect(refused({"overlong:100"}), "expected 2 comma-separated numbers");
  expect(refused({"overlong:100,200"}), "larger than the maximum length");
  expect(refused({"numeric:-1"}), "is not a number above 0");
  expect(refused({"tags"}), "expected tags:");
  expect(refused({"pattern:(a"}), "does not compile");
  expect(refused({"python:nowhere.py"}), "file nowhere.py does not exist");
  expect(refused({"python:thing"}), "expected python:FILE.py");
  expect(refused({"exec:/nowhere/program"}), "cannot be started");
  expect(refused({"https://host/"}), "local proxy");
  expect(refused({"http://user@host/"}), "user name");
  expect(refused({"http://host:0/"}), "expected http://HOST");
  expect(refused({"math"}, {1, 2}), "2 numbers for 1 functions");
  expect(refused({"math @"}), "no source");
}

/// Runs `action` in a new folder that holds files of these names.
void in_folder_with(const std::string& name, const std::vector<std::string>& files,
                    const std::function<void()>& action) {
  const TestFolder made;
  const std::filesystem::path before = std::filesystem::current_path(), folder = made.path / name;
  create_directories(folder);
  for (const std::string& file : files) write_atomically(folder / file, "def reward(completions, **k): return [1.0]\n");
  std::filesystem::current_path(folder);
  action();
  std::filesystem::current_path(before);
}

TEST(RewardFiles, HaveAbsolutePaths) {
  in_folder_with("plain", {"my.py", "judge.sh", "words.txt"}, [] {
    const std::string here = std::filesystem::current_path().string() + "/";
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"python:my.py", "python:" + here + "my.py"},
        {"python:./../plain/my.py:f", "python:" + here + "my.py:f"},
        {"python:my.py:f @a/b,c", "python:" + here + "my.py:f @a/b,c"},
        {"python:none.py", "python:none.py"},  // rejected at the start of a run
        {"exec:./judge.sh --k 3", "exec:" + here + "judge.sh --k 3"},
        {"exec:sh judge.sh words.txt @x", "exec:sh " + here + "judge.sh " + here + "words.txt @x"},
        {"exec:judge.sh  'a  b'", "exec:judge.sh  'a  b'"},  // a program in PATH, no files
        {"exec:./judge.sh 'a  b'", "exec:" + here + "judge.sh 'a  b'"},
        {"exec:sh 'judge.sh", "exec:sh 'judge.sh"},
        {"math", "math"},
        {"pattern:my.py ", "pattern:my.py "},
        {"http://host:1/words.txt", "http://host:1/words.txt"}};
    for (const auto& [written, wanted] : cases) {
      EXPECT_EQ(with_absolute_paths(written), wanted);
      EXPECT_EQ(with_absolute_paths(wanted), wanted);
    }
  });
}

TEST(RewardFiles, KeepRelativePathsInFoldersWithOddNames) {
  in_folder_with("it's a folder", {"my.py", "judge.sh"}, [] {
    const std::string here = std::filesystem::current_path().string() + "/";
    EXPECT_EQ(with_absolute_paths("python:my.py"), "python:" + here + "my.py");
    const std::string full = with_absolute_paths("exec:sh judge.sh");
    EXPECT_THAT(*shell_words(full.substr(5)), testing::ElementsAre("sh", here + "judge.sh"));
  });
  // Such folder names contain separators of the syntax, so the function stays relative.
  for (const char* name : {"a @b", "a.py:b"})
    in_folder_with(name, {"my.py"}, [] { EXPECT_EQ(with_absolute_paths("python:my.py"), "python:my.py"); });
}

TEST(RewardFiles, HaveShortNamesInAnyFolder) {
  in_folder_with("plain", {"my.py"}, [] {
    RewardOptions options;
    for (const std::string function : {"python:my.py:reward @a", "exec:cat my.py"}) {
      options.functions = {function, with_absolute_paths(function)};
      const RewardSum reward = make_reward(options);
      EXPECT_EQ(reward.terms()[0].name, function);
      EXPECT_EQ(reward.terms()[1].name, function + " (2)");
    }
  });
}

TEST(RewardOptions, HaveDescriptions) {
  RewardOptions options;
  OptionTable table;
  table.section("reward", "Reward functions and penalties.", options);
  EXPECT_NO_THROW(table.load({}));
  EXPECT_EQ(make_reward(options).terms()[0].name, "math");
  EXPECT_EQ(make_reward(options, [](const Prompt&, std::string_view) { return 0.0; }).terms()[0].name, "task");
}

}  // namespace
}  // namespace keel
