#include "keel/reward/functions/code_reward.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/errors.h"
#include "tests/support/reward_samples.h"

namespace keel {
namespace {

TEST(CodeReward, TakesTheLastFencedBlock) {
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
  EXPECT_THROW(read_code_tests(std::string(100'000, '[') + std::string(100'000, ']')), std::invalid_argument);
  EXPECT_THROW(read_code_tests(Json::array()), std::invalid_argument);
  EXPECT_THROW(read_code_tests(R"({"inputs": [[2]], "outputs": [1267650600228229401496703205376], "fn_name": "f"})"),
               std::invalid_argument);  // it would be rounded
  EXPECT_THROW(read_code_tests(Json::parse(R"({"inputs": [1], "outputs": []})")), std::invalid_argument);
}

/// Where the machine gives no sandbox the reward must say so; then there is nothing more to test.
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
    options.functions = {function};
    options.code_seconds = 5;
    return options;
  }
  /// Once for each function: a sandbox is tried out when it is made, which takes as long as a program.
  static const RewardSum& made(const std::string& function) {
    static std::map<std::string, RewardSum> all;
    const auto found = all.find(function);
    return found != all.end() ? found->second : all.emplace(function, make_reward(options(function))).first->second;
  }
  static double reward(const std::string& program, const Json& tests, const char* function = "code") {
    SampleBatch batch;
    batch.add("Here it is:\n```python\n" + program + "\n```", tests);
    return made(function).judge(batch.samples()).totals.at(0).value();
  }
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

TEST_F(RunCode, WhetherTheProgramHasANameIsAQuestion) {
  const Json checks = {"import solution\nassert hasattr(solution, 'f')", "import solution as s\nassert callable(s.f)",
                       "assert f(1) == 2"};
  EXPECT_EQ(reward("def f(x): return x + 1", checks), 1);
  EXPECT_EQ(reward("def f(x): return x", checks, "code:fraction"), 2 / 3.0);
  EXPECT_EQ(reward("def g(x): return x + 1", checks, "code:fraction"), 0);
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

/// Programs that solve their problem, in ways that data sets have; the tests run elsewhere, and must not notice.
struct Honest {
  const char *name, *program;
  Json tests;
};

const Honest kHonest[] = {
    {"values of all plain types, unchanged",
     "def f(x): return x",
     {"for x in (None, True, 0, -1, 10**40, 1.5, 1e-300, float('inf'), 2j, 'a\\ud800\\n', b'\\xff', bytearray(b'a'), "
      "[1, [2]], (1, (2,)), "
      "{1: 'a', 'b': {2}}, {1, 2}, frozenset([3]), range(3), [], (), set()):\n    y = f(x)\n    assert y == x and "
      "type(y) is type(x), x",
      "assert f(0.1 + 0.2) == 0.1 + 0.2 and str(f(-0.0)) == '-0.0' and f(float('nan')) != 0"}},
    {"values of the standard library",
     "from collections import *\nfrom fractions import Fraction\nfrom decimal import Decimal\nimport datetime\nP = "
     "namedtuple('P', 'x y')\n"
     "def f(): return [Counter('aab'), deque([1]), OrderedDict(a=1), defaultdict(list, a=[1]), Fraction(1, 3), "
     "Decimal('1.50'), "
     "datetime.date(2020, 1, 2), datetime.timedelta(1), P(1, 2)]",
     {"from collections import *\nfrom fractions import Fraction\nfrom decimal import Decimal\nimport datetime\n"
      "assert f()[:8] == [Counter('aab'), deque([1]), OrderedDict(a=1), {'a': [1]}, Fraction(1, 3), Decimal('1.5'), "
      "datetime.date(2020, 1, 2), datetime.timedelta(1)]\nassert f()[8] == (1, 2) and f()[8].y == 2",
      "assert f()[0] == Counter(b=1, a=2)"}},
    {"changing an argument in place",
     "def f(xs): xs.sort(); xs[0].append(9)\ndef g(d, x): d['x'] = x; return d",
     {"inner = [1]\nxs = [[3], inner]\nassert f(xs) is None and xs == [[1, 9], [3]] and xs[0] is inner and inner == "
      "[1, 9]",
      "d, y = {}, [1]\nassert g(d, y) is d and d['x'] is y"}},
    {"containers that are kept, and changed later",
     "class Stack:\n    def __init__(self, items): self.items = items\n    def size(self): return len(self.items)\n"
     "    def push(self, x): self.items.append(x)\nkept = {}\ndef cache(x): return kept.setdefault(x, [x])",
     {"s = Stack([])\ns.items.append(1)\nassert s.size() == 1",
      "xs = []\ns = Stack(xs)\nxs.append(1)\nassert s.size() == 1",
      "s = Stack([])\nitems = s.items\ns.push([5])\nassert items == [[5]] and s.items is items",
      "xs = [1]\ns = Stack(xs)\nassert s.items is xs and cache(2) is cache(2) and cache(3) is not cache(2)",
      "for i in range(300):\n    r = cache(i)\n    r.append(0)\n    assert cache(i) == [i, 0]"}},
    {"what Python asks of objects",
     "class C:\n    def __enter__(self): return 5\n    def __exit__(self, *a): self.left = True\n"
     "    def __format__(self, how): return 'F' + how\n    def __reversed__(self): return iter([2, 1])\n"
     "class D(C):\n    'a text'",
     {"c = C()\nwith c as v:\n    assert v == 5\nassert c.left",
      "assert f'{C():x}' == 'Fx' and list(reversed(C())) == [2, 1]",
      "assert issubclass(D, C) and not issubclass(C, D) and callable(C) and not callable(C()) and D.__doc__ == 'a "
      "text'",
      "assert hasattr(C(), '__reversed__') and not hasattr(C(), '__len__')"}},
    {"exceptions of libraries, and their causes",
     "import json, statistics, sys\ndef f(x): return json.loads(x)\ndef g(x): return statistics.mean(x)\ndef h(): "
     "sys.exit(2)\n"
     "def k():\n    try: 1 / 0\n    except ZeroDivisionError as error: raise ValueError('a') from error",
     {"import json\ntry:\n    f('{')\n    assert False\nexcept json.JSONDecodeError as error:\n    assert error.pos == "
      "1",
      "import statistics\ntry:\n    g([])\n    assert False\nexcept statistics.StatisticsError:\n    pass",
      "try:\n    h()\n    assert False\nexcept SystemExit as error:\n    assert error.code == 2",
      "try:\n    k()\n    assert False\nexcept ValueError as error:\n    assert isinstance(error.__cause__, "
      "ZeroDivisionError)"}},
    {"texts that the tests evaluate, and arithmetic that the program writes",
     "def f(x): return x * x\ndef g(): return '(8 - 2) * 4'\nrate = 1\ndef h(): return rate",
     {"assert eval('f(2) == 4') and all(eval(s) for s in ['f(2) == 4', 'f(3) == 9'])", "exec('assert f(2) == 4')",
      "assert eval(g()) == 24", "import solution\nsolution.rate = 5\nassert solution.h() == 5"}},
    {"libraries that compile texts of their own, and types by other names",
     "import collections\ndef f(x): return x * x\nP = collections.namedtuple('P', 'a')\ndef g(): return P(1)",
     {"assert f(2) == 4\nimport timeit\nassert timeit.timeit(lambda: f(2), number=2) > 0",
      "from dataclasses import dataclass\n@dataclass\nclass D:\n    x: int\nassert D(f(2)).x == 4 and g().a == 1",
      "import ast, builtins\nassert ast.literal_eval(str([f(2)])) == [4] and builtins.eval('6 * 7') == 42",
      "assert f(2) == 4\nimport smtplib, xmlrpc.client, unittest.mock\nassert unittest.mock.create_autospec(len)",
      "def make(type, n): return type(n)\nassert make(str, f(2)) == '4' and type(f(2)) is int"}},
    {"containers with more than they hold",
     "from collections import Counter, defaultdict, deque\ndef lists(x): return defaultdict(list, {1: [x]})\n"
     "def sevens(): return defaultdict(lambda: 7)\ndef last(): return deque([1, 2], maxlen=2)\n"
     "def count(d, x):\n    d[x]['n'] += 1\n    return len(d)",
     {"r = lists(2)\nassert r == {1: [2]} and r[5] == []", "assert sevens()['x'] == 7",
      "r = last()\nr.append(3)\nassert list(r) == [2, 3] and r.maxlen == 2",
      "from collections import Counter, defaultdict\nd = defaultdict(Counter)\nassert count(d, 'a') == 1\n"
      "assert d == {'a': {'n': 1}}"}},
    {"a name of a library's",
     "def gcd(a, b): return 42",
     {"assert sorted([gcd(4, 6)]) == [42]", "assert gcd(1, 2) == 42"}},
    {"an entry point that is called as Python's",
     "def sorted(x): return [7]",
     {{"test", "def check(candidate):\n    assert candidate([2, 1]) == [7] and sorted([2, 1]) == [1, 2]"},
      {"entry_point", "sorted"}}},
    {"objects of its own, by attributes and methods",
     "class Stack(list):\n    def push(self, x): self.append(x)\n"
     "class Point:\n    def __init__(self, x): self.x = x\n    def __add__(self, other): return Point(self.x + "
     "other.x)\n"
     "    def __len__(self): return 3\n    def __iter__(self): return iter([1, 2, 3])\n    def __str__(self): return "
     "'P'\n"
     "    def moved(self, by): return Point(self.x + by)",
     {"s = Stack()\ns.push(3)\nassert s == [3] and len(s) == 1 and s[0] == 3 and 3 in s and not s == [4] and s + [1] "
      "== [3, 1]",
      "p = Point(1) + Point(2)\nassert p.x == 3 and len(p) == 3 and list(p) == [1, 2, 3] and 2 in p and str(p) == 'P'",
      "p = Point(1).moved(by=4)\np.x += 1\nassert isinstance(p, Point) and p.x == 6 and hasattr(p, 'moved') and not "
      "hasattr(p, 'y')"}},
    {"exceptions, Python's and its own",
     "class Low(ValueError):\n    def __init__(self, by): super().__init__(f'low by {by}'); self.by = by\n"
     "def f(x):\n    if x < 0: raise Low(-x)\n    return {}[x]",
     {"try:\n    f(-3)\n    assert False\nexcept Low as error:\n    assert str(error) == 'low by 3' and error.by == 3",
      "try:\n    f(-3)\n    assert False\nexcept ValueError:\n    pass",
      "try:\n    f(7)\n    assert False\nexcept KeyError as error:\n    assert error.args == (7,)"}},
    {"generators and functions as values",
     "def count(n):\n    for i in range(n): yield i\ndef adder(n): return lambda x: x + n\ndef apply(f, xs): return "
     "[f(x) for x in xs]",
     {"assert list(count(4)) == [0, 1, 2, 3] and next(count(1)) == 0 and sorted(count(3), reverse=True) == [2, 1, 0]",
      "assert adder(2)(3) == 5",
      "assert apply(lambda x: x * x, [1, 2, 3]) == [1, 4, 9] and apply(adder(1), [1]) == [2]"}},
    {"exceptions that the tests hand back",
     "class Low(ValueError): pass\ndef of(x): return Low if x < 0 else KeyError\n"
     "def name(kind): return kind.__name__\ndef fail(): raise Low('so low')\ndef text(error): return str(error)",
     {"assert name(of(-1)) == 'Low' and name(of(1)) == 'KeyError' and name(IndexError) == 'IndexError'",
      "try:\n    fail()\nexcept Low as error:\n    assert text(error) == 'so low'"}},
    {"tests that prepare others, and use a name of the program's as theirs",
     "def f(x): return x * x",
     {"import math", "def twice(x):\n    assert x > 0\n    return 2 * x", "same = lambda a, b: a == b",
      "f = f(2)\nassert same(f, twice(2)) and [f for f in (1, 2)]", "assert f(3) == 9 and (lambda f: f)(2) == 2"}},
    {"names of libraries that nobody imports",
     "import datetime as d, math\ndef f(x): return d.date(2020, 1, x)\ndef g(): return math.pi",
     {"assert f(2) == date(2020, 1, 1) + timedelta(1) and isclose(g(), pi) and g() < inf"}},
    {"a name of Python's",
     "def sum(a, b): return a + b if a < b else 6",
     {"assert sum(10, 15) == 25", "assert sum(2, 1) == 6"}},
    {"modules and names that only the program imports",
     "import math\nfrom collections import Counter\ndef f(x): return math.sqrt(x)",
     {"assert math.isclose(f(2) ** 2, 2)", "assert Counter([f(4)]) == Counter([2.0])"}},
    {"helpers that the tests borrow from the program, in HumanEval",
     "def poly(cs, x): return sum(c * x ** i for i, c in enumerate(cs))\ndef find_zero(cs): return -cs[0] / cs[1]",
     {{"test",
       "import math\ndef check(candidate):\n    for i in range(50):\n        assert math.fabs(poly([i, 1], "
       "candidate([i, 1]))) < 1e-4"},
      {"entry_point", "find_zero"}}},
    {"a method as the entry point",
     "class Solution:\n    def two(self, nums, target): return [0, 1]",
     {{"test", "def check(candidate):\n    assert candidate(nums=[3, 3], target=6) == [0, 1]"},
      {"entry_point", "Solution().two"}}},
    {"tests for unittest and pytest",
     "def f(x): return x + 1",
     {"import unittest\nclass Tests(unittest.TestCase):\n    def test_value(self): self.assertEqual(f(1), 2)\n"
      "    def test_error(self):\n        with self.assertRaises(TypeError): f('x')",
      "from solution import f\nclass TestF:\n    def test_value(self):\n        assert f(1) == 2\ndef test_other():\n  "
      "  assert f(2) == 3"}},
    {"sets and exceptions in unittest",
     "class Low(ValueError): pass\nclass Set(set): pass\ndef f(x):\n    if x < 0: raise Low('low')\n    return Set([x, "
     "5])",
     {"import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertSetEqual(f(4), {4, 5})\n"
      "        self.assertEqual(str(Low('x')), 'x')\n        self.assertTrue(issubclass(Low, ValueError))\n"
      "        with self.assertRaises(Low): f(-1)"}},
    {"printing, threads and a dataclass on the side",
     "import threading\nfrom dataclasses import dataclass\n@dataclass\nclass Box:\n    x: int\n"
     "def f(x):\n    print('so', x)\n    t = threading.Thread(target=print)\n    t.start(), t.join()\n    return "
     "Box(x)",
     {"assert f(3).x == 3"}},
};

TEST_F(RunCode, SolutionsPassHoweverTheyAreTested) {
  for (const Honest& honest : kHonest) EXPECT_EQ(reward(honest.program, honest.tests), 1) << honest.name;
}

TEST_F(RunCode, TestsThatRunnersRunCanFail) {
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

TEST_F(RunCode, SaysWhyAProgramDidNotPass) {
  const auto note = [](const std::string& program, const Json& tests, const RewardSum& reward = made("code")) {
    SampleBatch batch;
    batch.add(program, tests);
    const Judgement judgement = reward.judge(batch.samples());
    EXPECT_EQ(judgement.totals, (Rewards{0})) << program;
    return judgement.notes.empty() ? "" : judgement.notes[0];
  };
  EXPECT_EQ(note("def f(x): return 1", {"assert f(1) == 1", "assert f(2) == 2, 'two'"}),
            "code: test 2: AssertionError: two");
  EXPECT_EQ(note("import os\ndef f(x): os._exit(0)", {"assert f(1) == 1"}), "code: test 1: the program ended");
  EXPECT_EQ(note("def", {"assert f(1) == 1"}).substr(0, 59),
            "code: test 1: the program does not load: SyntaxError: inval");
  const std::string objects =
      note("class P: pass\ndef f(x): return P()", {"try:\n    assert f(1) == 1\nexcept BaseException: pass"});
  EXPECT_NE(objects.find("not judgeable: a test compares an object of the program's class P"), std::string::npos)
      << objects;
  RewardOptions hurried = options("code");
  hurried.code_seconds = 1;
  const std::string late = note("import time\ndef f(x): time.sleep(100)", {"assert f(1) == 1"}, make_reward(hurried));
  EXPECT_NE(late.find("took too long"), std::string::npos) << late;
}

TEST_F(RunCode, ATestThatCannotBeJudgedIsAFailureAndNoVerdict) {
  RewardOptions lenient = options("code");
  lenient.on_error = "skip";
  const RewardSum reward = make_reward(lenient);
  const auto failure = [&](const Json& tests) {
    SampleBatch batch;
    batch.add("def f(x): return 1", tests);
    const Judgement judgement = reward.judge(batch.samples());
    EXPECT_EQ(judgement.totals, (Rewards{std::nullopt})) << tests;
    return judgement.failures.empty() ? "" : judgement.failures[0];
  };
  for (const auto& [test, part] : std::vector<std::pair<const char*, const char*>>{
           {"class Node: pass\nassert f(Node()) == 1", "hands the program an object of the class Node"},
           {"assert f(1) ==", "the test is no Python"},
           {"import there_is_no_such_module", "No module named 'there_is_no_such_module'"},
           {"def test_it(capsys): assert f(1) == 1", "test_it takes arguments"},
           {"async def test_it(): assert f(1) == 2", "test_it is a coroutine"},
           {"def test_it():\n    yield f(1)\n    assert f(1) == 2", "test_it is a coroutine or a generator"}})
    EXPECT_NE(failure({test}).find(part), std::string::npos) << failure({test});
  // Every program would pass these.
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
    EXPECT_NE(failure({test}).find("asks the program for nothing"), std::string::npos) << test << failure({test});
  EXPECT_NE(failure({"assert f(1) == 1", "def check(g):\n    assert g(1) == 2"}).find("test 2"), std::string::npos);
}

/// Only the program could say how these end: no verdict where the test itself wants it, none in favour where an answer
/// brought it about; the reason says so.
TEST_F(RunCode, WhatOnlyTheProgramCouldTellIsNotJudged) {
  struct Case {
    const char *program, *test, *part;
    bool row;  // it is the test's doing
  };
  const char* node = "class N:\n    def __init__(self): self.me = self\ndef f(x): return N()\ndef g(x): return x";
  RewardOptions lenient = options("code");
  lenient.on_error = "skip";
  const RewardSum lenient_reward = make_reward(lenient);
  for (const Case& one : std::vector<Case>{
           {node, "n = N()\nassert n.me is n", "two of the program's objects are the same one", true},
           {node, "n = N()\nassert g(n) is not n", "two of the program's objects are the same one", true},
           {node, "import operator\nassert operator.is_(N(), N())", "are the same one", true},
           {node, "import inspect\nassert len(inspect.signature(g).parameters) == 1 and g(1) == 1", "asks g for", true},
           {node, "import functools\ng = functools.lru_cache(g)\nassert g(2) == 2", "asks g for", true},
           {node, "exec(g('x = ') + '1')\nassert x == 1", "gives to exec a text", true},
           {node, "import builtins\nassert g(1) and builtins.eval(g('N') + '()')", "runs a text", true},
           {node, "import timeit\nassert timeit.timeit(g('pass'), number=1) >= 0", "runs a text", true},
           {node, "import code\ncode.InteractiveInterpreter().runsource(g('x = ') + '1')", "runs a text", true},
           {node, "import runpy\nopen('/tmp/m.py', 'w').write(g('x = ') + '1')\nassert runpy.run_path('/tmp/m.py')",
            "runs a text", true},
           {node, "import sys\nopen('/tmp/m.py', 'w').write(g('x = ') + '1')\nsys.path.append('/tmp')\nimport m",
            "runs a text", true},
           {node, "assert compile(g(b'x = ') + b'1', '', 'exec')", "gives to compile a text", true},
           {node, "import ast\nassert compile(ast.parse(g('x = 1')), '', 'exec')", "gives to compile a text", true},
           {node, "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()): f(1)",
            "what the program prints", true},
           {node, "__import__('sys').modules['__main__'].PROGRAM.channel.write('pass ')\nassert g(1) == 2",
            "gave 2 verdicts on 1 tests", true},
           {node, "assert type(f(1)).__name__ == 'N'", "for its class", false},
           {node, "assert isinstance(f(1), list)", "for __class__", false},
           {node, "assert 3 in f(1)", "whether it holds a value", false},
           {node, "import dataclasses\nassert dataclasses.asdict(f(1)) == {}", "asdict()", false},
           {node, "import copy\nassert copy.deepcopy(f(1))", "__deepcopy__", false},
           {node, "assert id(f(1)) != id(f(2))", "its identity", false},
           {node, "t = (1, 2)\nassert g(t) is t", "two equal values of the type tuple", false},
           {node, "assert eval(g('N') + '()')", "gives to eval a text", false}}) {
    SampleBatch batch;
    batch.add(one.program, Json{one.test});
    const Judgement judgement = lenient_reward.judge(batch.samples());
    EXPECT_EQ(judgement.totals, (Rewards{one.row ? std::nullopt : std::optional<double>(0)})) << one.test;
    const std::string said = one.row                   ? judgement.failures.empty() ? "" : judgement.failures[0]
                                               : judgement.notes.empty() ? ""
                                                       : judgement.notes[0];
    EXPECT_NE(said.find(one.part), std::string::npos) << one.test << ": " << said;
  }
}

TEST_F(RunCode, TestsThatCannotBeReadAreReportedAndNotScored) {
  SampleBatch batch;
  batch.add("print(1)", Json{{"what", 1}});
  const std::string error = error_of(5, [&] { made("code").judge(batch.samples()); });
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
