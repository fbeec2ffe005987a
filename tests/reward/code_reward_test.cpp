#include "keel/reward/code_reward.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/reward_samples.h"

namespace keel {
namespace {

TEST(CodeReward, TakesTheLastFencedBlock) {
  EXPECT_EQ(extract_program("a\n```python\nx = 1\n```\nb\n```py\nx = 2\n```\nc"), "x = 2\n");
  EXPECT_EQ(extract_program("```\nx = 1\n"), "x = 1\n");
  EXPECT_EQ(extract_program("x = 1"), "x = 1");
}

TEST(CodeReward, ComparesOutputsByWordsAndLines) {
  EXPECT_TRUE(same_output("1 2\n3 \n\n", "1  2\n3"));
  EXPECT_FALSE(same_output("1 2 3", "1 2\n3"));
  EXPECT_TRUE(same_output("0.33333334", "0.33333333"));
  EXPECT_TRUE(same_output("2", "2.0"));
  EXPECT_FALSE(same_output("0.3334", "0.3333"));
  EXPECT_FALSE(same_output("1000001", "1000000"));
  EXPECT_FALSE(same_output("", "1"));
}

TEST(CodeReward, ReadsTheFormsOfDataSets) {
  const CodeTests apps = read_code_tests(R"({"inputs": ["1\n", ["2", "3"]], "outputs": ["2\n", 5]})");
  ASSERT_EQ(apps.dialogs.size(), 2u);
  EXPECT_EQ(apps.dialogs[1].input, "2\n3\n");
  EXPECT_EQ(apps.dialogs[1].output, "5");
  EXPECT_EQ(read_code_tests(Json::parse(R"({"inputs": [[1]], "outputs": [2], "fn_name": "f"})")).checks.size(), 1u);
  EXPECT_EQ(read_code_tests(Json::parse(R"(["assert f(1) == 2", "assert f(2) == 3"])")).checks.size(), 2u);
  EXPECT_EQ(read_code_tests(Json::parse(R"([{"input": "1", "output": "2"}])")).dialogs.size(), 1u);
  EXPECT_EQ(read_code_tests(Json::parse(R"({"assert_case": ["assert True"]})")).checks.size(), 1u);
  EXPECT_EQ(read_code_tests("assert f(1) == 2").checks.size(), 1u);
  EXPECT_THROW(read_code_tests(Json()), std::invalid_argument);
  EXPECT_THROW(read_code_tests(Json::array()), std::invalid_argument);
  EXPECT_THROW(read_code_tests(Json::parse(R"({"inputs": [1], "outputs": []})")), std::invalid_argument);
}

/// Where the machine gives no sandbox the reward must say so; then there is nothing more to test.
class RunCode : public testing::Test {
 protected:
  void SetUp() override {
    options_.functions = {"code"};
    options_.code_seconds = 5;
    try {
      make_reward(options_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadConfiguration);
      GTEST_SKIP() << error.what();
    }
  }
  double reward(const std::string& program, const Json& tests, const char* function = "code") {
    SampleBatch batch;
    batch.add("Here it is:\n```python\n" + program + "\n```", tests);
    options_.functions = {function};
    return judge(batch, options_).totals.at(0).value();
  }
  RewardOptions options_;
};

TEST_F(RunCode, JudgesWhatAProgramPrints) {
  const Json tests = {{"inputs", {"1 2\n", "3 4\n"}}, {"outputs", {"3\n", "7\n"}}};
  EXPECT_EQ(reward("print(sum(map(int, input().split())))", tests), 1);
  EXPECT_EQ(reward("if __name__ == '__main__':\n    print(3)", tests), 0);
  EXPECT_EQ(reward("print(3)", tests, "code:fraction"), 0.5);
  EXPECT_EQ(reward("print(sum(map(int, input().split()))); raise SystemExit(1)", tests), 0);
  EXPECT_EQ(reward("def", tests), 0);
}

TEST_F(RunCode, JudgesAFunctionByItsResults) {
  const Json calls =
      Json::parse(R"({"inputs": [[[1, 2], 3], "[4]\n5"], "outputs": [[1, 2, 3], [[4, 5]]], "fn_name": "f"})");
  EXPECT_EQ(reward("def f(a, b):\n    return tuple(a + [b])", calls), 1);
  EXPECT_EQ(reward("class Solution:\n    def f(self, a, b):\n        return a + [b]", calls), 1);
  EXPECT_EQ(reward("def f(a, b):\n    return a + [3]", calls, "code:fraction"), 0.5);
}

TEST_F(RunCode, ATextIsReadAsJsonOnlyWhereTheArgumentsAreText) {
  // APPS and TACO hold the values themselves, PRIME's data sets hold both sides as JSON.
  const char *same = "def f(s):\n    return s", *whole = "def f(s):\n    return int(s)";
  const Json values = Json::parse(R"({"inputs": [["12"]], "outputs": ["12"], "fn_name": "f"})");
  EXPECT_EQ(reward(same, values), 1);
  EXPECT_EQ(reward(whole, values), 0);
  const Json json = Json::parse(R"({"inputs": ["\"12\""], "outputs": ["12"], "fn_name": "f"})");
  EXPECT_EQ(reward(same, json), 0);
  EXPECT_EQ(reward(whole, json), 1);
}

TEST_F(RunCode, DecimalFractionsOfCallsMayDifferALittle) {
  const Json calls = Json::parse(R"({"inputs": [[3]], "outputs": [{"a": [0.3, [1, "x"]]}], "fn_name": "f"})");
  const auto returned = [&](const std::string& value) { return reward("def f(n):\n    return " + value, calls); };
  EXPECT_EQ(returned("{'a': (n * 0.1, [1, 'x'])}"), 1);
  EXPECT_EQ(returned("{'a': [0.30001, [1, 'x']]}"), 0);
  EXPECT_EQ(returned("{'a': [0.3, [1.0000001, 'x']]}"), 0);
  EXPECT_EQ(returned("{'a': [0.3, [1, 'y']]}"), 0);
  EXPECT_EQ(returned("{'a': [0.3]}"), 0);
  EXPECT_EQ(returned("{'a': [float('nan'), [1, 'x']]}"), 0);
}

TEST_F(RunCode, JudgesAFunctionByAssertions) {
  const Json checks = {"assert f(1) == 2", "assert f(2) == 3\nassert f(3) == 4"};
  EXPECT_EQ(reward("def f(x): return x + 1", checks), 1);
  EXPECT_EQ(reward("def f(x): return 2", checks), 0);
  EXPECT_EQ(reward("def f(x): return 2", checks, "code:fraction"), 0.5);
  const Json human_eval = {{"test", "def check(candidate):\n    assert candidate(1) == 2\n"}, {"entry_point", "f"}};
  EXPECT_EQ(reward("def f(x): return x + 1", human_eval), 1);
  EXPECT_EQ(reward("def f(x): return x", human_eval), 0);
}

TEST_F(RunCode, LeavingEarlyOrPrintingASuccessPassesNoCheck) {
  const Json checks = {"assert f(1) == 2"};
  EXPECT_EQ(reward("import os\nos._exit(0)", checks), 0);
  EXPECT_EQ(reward("raise SystemExit(0)", checks), 0);
  EXPECT_EQ(reward("import sys\nprint(sys.stdin.read())\nprint('0')\ndef f(x): return 0", checks), 0);
  EXPECT_EQ(
      reward(
          "import os\nfor i in range(20):\n    try: os.write(i, b'passed 0\\n')\n    except OSError: pass\nos._exit(0)",
          checks),
      0);
}

TEST_F(RunCode, TestsThatCannotBeReadAreReportedAndNotScored) {
  SampleBatch batch;
  batch.add("print(1)", Json{{"what", 1}});
  const std::string error = error_of(5, [&] { judge(batch, options_); });
  EXPECT_NE(error.find("neither inputs and outputs"), std::string::npos) << error;
}

TEST(CodeReward, APythonThatIsNotThereIsRefused) {
  RewardOptions options;
  options.functions = {"code"};
  options.python = "/nowhere/python3";
  EXPECT_NE(error_of(2, [&] { make_reward(options); }).find("cannot be started"), std::string::npos);
}

}  // namespace
}  // namespace keel
