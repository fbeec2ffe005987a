#include "keel/reward/functions/code_reward.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/reward/functions/program_cases.h"
#include "tests/support/errors.h"
#include "tests/support/reward_samples.h"

namespace keel {
namespace {

TEST(CodeReward, ExtractsTheLastFencedBlock) {
  EXPECT_EQ(extract_program("a\n```python\nx = 1\n```\nb\n```py\nx = 2\n```\nc"), "x = 2\n");
  EXPECT_EQ(extract_program("```\nx = 1\n"), "x = 1\n");
  const std::string documented = "def f():\n    'so:'\n    ```\n    f()\n    ```\n    return 1\n";
  EXPECT_EQ(extract_program("a\n```\n" + documented + "```\nc"), documented);
  EXPECT_EQ(extract_program("1. so:\n    ```\n    x = 1\n    ```\nc"), "    x = 1\n    ");
  EXPECT_EQ(extract_program("x = 1"), "x = 1");
}

TEST(CodeReward, ComparesOutputsByWordsAndLines) {
  EXPECT_TRUE(same_output("1 2\n3 \n\n", "1  2\n3"));
  EXPECT_FALSE(same_output("1 2 3", "1 2\n3"));
  EXPECT_TRUE(same_output("0.33333334", "0.33333333"));
  EXPECT_TRUE(same_output("2", "2.0"));
  EXPECT_TRUE(same_output("+2.0", "2.0"));
  EXPECT_FALSE(same_output("0.3334", "0.3333"));
  EXPECT_FALSE(same_output("1000001", "1000000"));
  EXPECT_FALSE(same_output("", "1"));
}

TEST(CodeReward, ParsesTheFormatsOfDataSets) {
  const CodeTests apps = read_code_tests(R"({"inputs": ["1\n", ["2", "3"]], "outputs": ["2\n", 5]})");
  ASSERT_EQ(apps.io_tests.size(), 2u);
  EXPECT_EQ(apps.io_tests[1].input, "2\n3\n");
  EXPECT_EQ(apps.io_tests[1].output, "5");
  EXPECT_EQ(read_code_tests(Json::parse(R"({"inputs": [[1]], "outputs": [2], "fn_name": "f"})")).checks.size(), 1u);
  EXPECT_EQ(read_code_tests(Json::parse(R"(["assert f(1) == 2", "assert f(2) == 3"])")).checks.size(), 2u);
  EXPECT_EQ(read_code_tests(Json::parse(R"([{"input": "1", "output": "2"}])")).io_tests.size(), 1u);
  EXPECT_EQ(read_code_tests(Json::parse(R"({"assert_case": ["assert True"]})")).checks.size(), 1u);
  EXPECT_EQ(read_code_tests("assert f(1) == 2").checks.size(), 1u);
  EXPECT_THROW(read_code_tests(Json()), std::invalid_argument);
  EXPECT_THROW(read_code_tests(std::string(100'000, '[') + std::string(100'000, ']')), std::invalid_argument);
  EXPECT_THROW(read_code_tests(Json::array()), std::invalid_argument);
  EXPECT_THROW(read_code_tests(R"({"inputs": [[2]], "outputs": [1267650600228229401496703205376], "fn_name": "f"})"),
               std::invalid_argument);  // it would be rounded
  EXPECT_THROW(read_code_tests(Json::parse(R"({"inputs": [1], "outputs": []})")), std::invalid_argument);
}

/// Skips the tests if the machine has no sandbox, after checking the error message.
class RunCode : public testing::Test {
 protected:
  void SetUp() override {
    try {
      made("code");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadConfiguration);
      GTEST_SKIP() << error.what();
    }
  }
  static RewardOptions options(const std::string& function) {
    RewardOptions options;
    // Only a hang takes so long, even on a busy machine.
    options.functions = {function + (function.find(':') == std::string::npos ? ":" : ",") + "seconds=600"};
    return options;
  }
  /// Caches the reward of each function, because creating one runs a test program.
  static const RewardSum& made(const std::string& function) {
    static std::map<std::string, RewardSum> all;
    const auto found = all.find(function);
    return found != all.end() ? found->second : all.emplace(function, make_reward(options(function))).first->second;
  }
  static double reward(const std::string& program, const Json& tests, const char* function = "code") {
    SampleBatch batch;
    batch.add("Here it is:\n```python\n" + program + "\n```", tests);
    return made(function).score(batch.samples()).totals.at(0).value();
  }
};

TEST_F(RunCode, ScoresTheOutputOfAProgram) {
  const Json tests = {{"inputs", {"1 2\n", "3 4\n"}}, {"outputs", {"3\n", "7\n"}}};
  EXPECT_EQ(reward("print(sum(map(int, input().split())))", tests), 1);
  EXPECT_EQ(reward("if __name__ == '__main__':\n    print(3)", tests), 0);
  EXPECT_EQ(reward("print(3)", tests, "code:fraction"), 0.5);
  EXPECT_EQ(reward("print(sum(map(int, input().split()))); raise SystemExit(1)", tests), 0);
  EXPECT_EQ(reward("def", tests), 0);
}

TEST_F(RunCode, ScoresAFunctionByItsResults) {
  const Json calls =
      Json::parse(R"({"inputs": [[[1, 2], 3], "[4]\n5"], "outputs": [[1, 2, 3], [[4, 5]]], "fn_name": "f"})");
  EXPECT_EQ(reward("def f(a, b):\n    return tuple(a + [b])", calls), 1);
  EXPECT_EQ(reward("class Solution:\n    def f(self, a, b):\n        return a + [b]", calls), 1);
  EXPECT_EQ(reward("def f(a, b):\n    return a + [3]", calls, "code:fraction"), 0.5);
}

TEST_F(RunCode, ParsesStringsAsJsonOnlyIfArgumentsAreStrings) {
  // APPS and TACO hold the values themselves, PRIME's data sets hold both sides as JSON.
  const char *same = "def f(s):\n    return s", *whole = "def f(s):\n    return int(s)";
  const Json values = Json::parse(R"({"inputs": [["12"]], "outputs": ["12"], "fn_name": "f"})");
  EXPECT_EQ(reward(same, values), 1);
  EXPECT_EQ(reward(whole, values), 0);
  const Json json = Json::parse(R"({"inputs": ["\"12\""], "outputs": ["12"], "fn_name": "f"})");
  EXPECT_EQ(reward(same, json), 0);
  EXPECT_EQ(reward(whole, json), 1);
}

TEST_F(RunCode, DecimalFractionsOfCallsHaveATolerance) {
  const Json calls = Json::parse(R"({"inputs": [[3]], "outputs": [{"a": [0.3, [1, "x"]]}], "fn_name": "f"})");
  const auto returned = [&](const std::string& value) { return reward("def f(n):\n    return " + value, calls); };
  EXPECT_EQ(returned("{'a': (n * 0.1, [1, 'x'])}"), 1);
  EXPECT_EQ(returned("{'a': [0.30001, [1, 'x']]}"), 0);
  EXPECT_EQ(returned("{'a': [0.3, [1.0000001, 'x']]}"), 0);
  EXPECT_EQ(returned("{'a': [0.3, [1, 'y']]}"), 0);
  EXPECT_EQ(returned("{'a': [0.3]}"), 0);
  EXPECT_EQ(returned("{'a': [float('nan'), [1, 'x']]}"), 0);
}

TEST_F(RunCode, ScoresAFunctionByAssertions) {
  const Json checks = {"assert f(1) == 2", "assert f(2) == 3\nassert f(3) == 4"};
  EXPECT_EQ(reward("def f(x): return x + 1", checks), 1);
  EXPECT_EQ(reward("def f(x): return 2", checks), 0);
  EXPECT_EQ(reward("def f(x): return 2", checks, "code:fraction"), 0.5);
  const Json human_eval = {{"test", "def check(candidate):\n    assert candidate(1) == 2\n"}, {"entry_point", "f"}};
  EXPECT_EQ(reward("def f(x): return x + 1", human_eval), 1);
  EXPECT_EQ(reward("def f(x): return x", human_eval), 0);
}

TEST_F(RunCode, TestsMayAskWhetherANameExists) {
  const Json checks = {"import solution\nassert hasattr(solution, 'f')", "import solution as s\nassert callable(s.f)",
                       "assert f(1) == 2"};
  EXPECT_EQ(reward("def f(x): return x + 1", checks), 1);
  EXPECT_EQ(reward("def f(x): return x", checks, "code:fraction"), 2 / 3.0);
  EXPECT_EQ(reward("def g(x): return x + 1", checks, "code:fraction"), 0);
}

TEST_F(RunCode, ExitingEarlyOrPrintingSuccessPassesNoCheck) {
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

TEST_F(RunCode, CorrectSolutionsPassInEveryTestFormat) {
  for (const ProgramCase& honest : program_cases("honest.txt"))
    EXPECT_EQ(reward(honest.program, honest.tests), 1) << honest.name;
}

TEST_F(RunCode, TestFunctionsAndClassesCanFail) {
  const char* program = "def f(x): return x + 1";
  EXPECT_EQ(
      reward(program, {"import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(f(1), 3)"}),
      0);
  EXPECT_EQ(reward(program, {"def test_value():\n    assert f(1) == 3"}), 0);
  EXPECT_EQ(reward(program, {"class TestF:\n    def test_value(self):\n        assert f(1) == 3"}), 0);
  EXPECT_EQ(reward(program, {"class Base:\n    def test_value(self):\n        assert f(1) == 3\n"
                             "class TestF(Base):\n    pass"}),
            0);
}

TEST_F(RunCode, ReportsWhyAProgramFailed) {
  const auto note = [](const std::string& program, const Json& tests, const RewardSum& reward = made("code")) {
    SampleBatch batch;
    batch.add(program, tests);
    const RewardResult result = reward.score(batch.samples());
    EXPECT_EQ(result.totals, (Rewards{0})) << program;
    return result.notes.empty() ? "" : result.notes[0].substr(result.notes[0].find(": ") + 2);  // without the name
  };
  EXPECT_EQ(note("def f(x): return 1", {"assert f(1) == 1", "assert f(2) == 2, 'two'"}),
            "test 2: AssertionError: two");
  EXPECT_EQ(note("import os\ndef f(x): os._exit(0)", {"assert f(1) == 1"}), "test 1: the program ended");
  EXPECT_EQ(note("def", {"assert f(1) == 1"}).substr(0, 53),
            "test 1: the program does not load: SyntaxError: inval");
  const std::string objects =
      note("class P: pass\ndef f(x): return P()", {"try:\n    assert f(1) == 1\nexcept BaseException: pass"});
  EXPECT_THAT(objects, HasSubstr("not testable: a test compares an object of the program's class P"));
  RewardOptions hurried;
  hurried.functions = {"code:seconds=1"};
  const std::string late = note("import time\ndef f(x): time.sleep(100)", {"assert f(1) == 1"}, make_reward(hurried));
  EXPECT_THAT(late, HasSubstr("took too long"));
}

TEST_F(RunCode, InvalidTestIsAFailureNotAReward) {
  RewardOptions lenient = options("code");
  lenient.on_error = "skip";
  const RewardSum reward = make_reward(lenient);
  const auto failure = [&](const Json& tests) {
    SampleBatch batch;
    batch.add("def f(x): return 1", tests);
    const RewardResult result = reward.score(batch.samples());
    EXPECT_EQ(result.totals, (Rewards{std::nullopt})) << tests;
    return result.failures.empty() ? "" : result.failures[0];
  };
  for (const auto& [test, part] : std::vector<std::pair<const char*, const char*>>{
           {"class Node: pass\nassert f(Node()) == 1", "passes an object of the class Node to the program"},
           {"assert f(1) ==", "the test is not valid Python"},
           {"import there_is_no_such_module", "No module named 'there_is_no_such_module'"},
           {"def test_it(capsys): assert f(1) == 1", "test_it takes arguments"},
           {"async def test_it(): assert f(1) == 2", "test_it is a coroutine"},
           {"def test_it():\n    yield f(1)\n    assert f(1) == 2", "test_it is a coroutine or a generator"}})
    EXPECT_THAT(failure({test}), HasSubstr(part));
  // All programs would pass these tests.
  for (const char* test :
       {"def check(candidate):\n    assert candidate(1) == 2",
        "from solution import f\ndef check(candidate):\n    assert candidate(1) == 2",
        "class FTest:\n    def test_it(self):\n        assert f(1) == 2",
        "if True:\n    def test_it():\n        assert f(1) == 2", "if __name__ == '__main__':\n    assert f(1) == 2",
        "import unittest\nclass T(unittest.TestCase):\n    async def test_it(self):\n"
        "        self.assertEqual(f(1), 2)",
        "import unittest\nclass T(unittest.TestCase):\n    @unittest.skip('')\n"
        "    def test_it(self):\n        self.assertEqual(f(1), 2)",
        "", "# nothing", "'>>> f(1)'", "def check_f():\n    assert f(1) == 2"})
    EXPECT_THAT(failure({test}), HasSubstr("does not use the program")) << test;
  EXPECT_THAT(failure({"assert f(1) == 1", "def check(g):\n assert g(1) == 2"}), HasSubstr("test 2"));
}

/// Only the program knows these results. The row fails if the test itself requires them, else the program gets 0.
TEST_F(RunCode, AnswersThatOnlyTheProgramKnowsGiveNoReward) {
  struct Case {
    const char *program, *test, *part;
    bool row;  // the test causes it
  };
  const char* node = "class N:\n    def __init__(self): self.me = self\ndef f(x): return N()\ndef g(x): return x";
  RewardOptions lenient = options("code");
  lenient.on_error = "skip";
  const RewardSum lenient_reward = make_reward(lenient);
  for (const Case& one : std::vector<Case>{
           {node, "n = N()\nassert n.me is n", "two of the program's objects are identical", true},
           {node, "n = N()\nassert g(n) is not n", "two of the program's objects are identical", true},
           {node, "import operator\nassert operator.is_(N(), N())", "are identical", true},
           {node, "import inspect\nassert len(inspect.signature(g).parameters) == 1 and g(1) == 1", "asks g for", true},
           {node, "import functools\ng = functools.lru_cache(g)\nassert g(2) == 2", "asks g for", true},
           {node, "exec(g('x = ') + '1')\nassert x == 1", "passes a text to exec", true},
           {node, "import builtins\nassert g(1) and builtins.eval(g('N') + '()')", "runs a text", true},
           {node, "import timeit\nassert timeit.timeit(g('pass'), number=1) >= 0", "runs a text", true},
           {node, "import code\ncode.InteractiveInterpreter().runsource(g('x = ') + '1')", "runs a text", true},
           {node, "import runpy\nopen('/tmp/m.py', 'w').write(g('x = ') + '1')\nassert runpy.run_path('/tmp/m.py')",
            "runs a text", true},
           {node, "import sys\nopen('/tmp/m.py', 'w').write(g('x = ') + '1')\nsys.path.append('/tmp')\nimport m",
            "runs a text", true},
           {node, "assert compile(g(b'x = ') + b'1', '', 'exec')", "passes a text to compile", true},
           {node, "import ast\nassert compile(ast.parse(g('x = 1')), '', 'exec')", "passes a text to compile", true},
           {node, "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()): f(1)",
            "the output of the program", true},
           {node, "__import__('sys').modules['__main__'].PROGRAM.channel.write('pass ')\nassert g(1) == 2",
            "returned 2 verdicts for 1 tests", true},
           {node, "assert type(f(1)).__name__ == 'N'", "for its class", false},
           {node, "assert isinstance(f(1), list)", "for __class__", false},
           {node, "assert 3 in f(1)", "whether it contains a value", false},
           {node, "import dataclasses\nassert dataclasses.asdict(f(1)) == {}", "asdict()", false},
           {node, "import copy\nassert copy.deepcopy(f(1))", "__deepcopy__", false},
           {node, "assert id(f(1)) != id(f(2))", "its identity", false},
           {node, "t = (1, 2)\nassert g(t) is t", "two equal values of the type tuple", false},
           {node, "assert eval(g('N') + '()')", "passes a text to eval", false}}) {
    SampleBatch batch;
    batch.add(one.program, Json{one.test});
    const RewardResult result = lenient_reward.score(batch.samples());
    EXPECT_EQ(result.totals, (Rewards{one.row ? std::nullopt : std::optional<double>(0)})) << one.test;
    const std::string text = one.row                ? result.failures.empty() ? "" : result.failures[0]
                                            : result.notes.empty() ? ""
                                                    : result.notes[0];
    EXPECT_THAT(text, HasSubstr(one.part)) << one.test;
  }
}

TEST_F(RunCode, UnreadableTestsAreAnError) {
  SampleBatch batch;
  batch.add("print(1)", Json{{"what", 1}});
  EXPECT_THAT(error_of(5, [&] { made("code").score(batch.samples()); }), HasSubstr("neither inputs and outputs"));
}

TEST(CodeReward, MissingPythonIsAnError) {
  RewardOptions options;
  options.functions = {"code"};
  options.python = "/nowhere/python3";
  EXPECT_THAT(error_of(2, [&] { make_reward(options); }), HasSubstr("cannot be started"));
}

}  // namespace
}  // namespace keel
