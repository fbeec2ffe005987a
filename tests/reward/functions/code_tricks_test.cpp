// Programs that try to get the reward without solving the problem f(x) = x * x.

#include <gtest/gtest.h>

#include "keel/core/error.h"
#include "keel/core/parallel.h"
#include "tests/reward/functions/program_cases.h"
#include "tests/support/effort.h"
#include "tests/support/reward_samples.h"

namespace keel {
namespace {

/// Implements the protocol itself and sends the same reply to every request.
std::string own_protocol(const std::string& gives, const std::string& also = "{}") {
  return "import __main__, json, os\n"
         "def say(key, gives): os.write(4, json.dumps({'id': key, 'changed': {}, 'gives': gives, **" +
         also +
         "}).encode() + b'\\n')\n"
         "say(__main__.program.serving, None)\ndata = b''\n"
         "while True:\n    while b'\\n' not in data: data += os.read(3, 65536)\n    line, _, data = "
         "data.partition(b'\\n')\n"
         "    request = json.loads(line)\n"
         "    say(request['id'], {'tuple': ['value', None, {'object': 0}]} if request['do'] == 'look' else " +
         gives + ")\n";
}

const std::string kProtocols[] = {
    own_protocol("0"),
    own_protocol("{'object': 0}"),
    own_protocol("{'object': -1}"),
    own_protocol("{'type': 'object'}"),
    own_protocol("{'same': 0}"),
    own_protocol("{'tuple': ['value', 4]}"),  // also as the plain value of an object
    own_protocol("{'nothing': 0}"),
    own_protocol("[1, 4]"),  // a container's number and contents
    own_protocol("[0, 4]"),
    own_protocol("[[], 4]"),
    own_protocol("{'dict': [1, 4]}"),
    own_protocol("{'function': 0}"),
    own_protocol("{'array': ['|O', [1], '00' * 8]}"),
    own_protocol("{'array': ['<i8', [1 << 40], '00' * 8]}"),
    own_protocol("{'standard': ['Decimal', ['4' * 100000]]}"),
    own_protocol("{'standard': ['system', ['true']]}"),
    own_protocol("{'named': ['x', ['__eq__'], [4]]}"),
    own_protocol("{'error': [[], 'AssertionError']}"),
    own_protocol("{'error': [[[1, 'E']], 'exit']}"),
    own_protocol("0",
                 "{'raises': {'class': {'error': [[], 'SystemExit']}, 'arguments': [0], 'text': '', 'object': 0}}"),
    own_protocol("0",
                 "{'raises': {'class': {'error': [[], 'StopIteration']}, 'arguments': [], 'text': '', 'object': 0}}"),
    own_protocol("0", "{'raises': 4}"),
    own_protocol("0", "{'calls': 0, 'with': [], 'named': {}}"),
    own_protocol("0", "{'changed': {'0': [4]}}"),
    own_protocol("0", "{'id': 'no'}"),
    own_protocol("json.loads('[' * 990 + ']' * 990)"),
};

const Json kAssertions = {"assert f(2) == 4",
                          "assert abs(f(3) - 9.0) < 1e-6",
                          "assert f(5) in (25, 26)",
                          "values = [36]\nassert set(map(f, [6])) == set(values)",
                          "import math\nassert math.isclose(f(7), 49) and f(7) != 50 and not f(7) < 49",
                          "from solution import f as g\ndef test_eight():\n    assert [64] == [g(8)]"};
const Json kCalls = {{"inputs", {{2}, {3}, "4"}}, {"outputs", {4, 9.0, "16"}}, {"fn_name", "f"}};
const Json kHumanEval = {
    {"test", "def check(candidate):\n    for i in range(2, 9):\n        assert candidate(i) == i * i\n"},
    {"entry_point", "f"}};

/// The fraction of tests that programs pass.
class CodeTricks : public testing::Test {
 protected:
  void SetUp() override {
    RewardOptions options;
    options.functions = {"code:fraction,seconds=600"};  // only a hang takes so long, even on a busy machine
    try {
      reward_.emplace(make_reward(options));
      options.functions = {"code:fraction,seconds=4"};
      short_reward_.emplace(make_reward(options));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadConfiguration);
      GTEST_SKIP() << error.what();
    }
  }
  /// Why tests with these imports cannot run here; empty if they can.
  std::string missing_libraries() const {
    try {
      reward("def f(x): return x", {"import numpy, pytest\nassert f(1) == 1"});
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::optional<double> reward(const std::string& program, const Json& tests) const {
    return reward(program, tests, *reward_);
  }
  static std::optional<double> reward(const std::string& program, const Json& tests, const RewardSum& sum) {
    SampleBatch batch;
    batch.add("```python\n" + program + "\n```", tests);
    return sum.score(batch.samples()).totals.at(0);
  }
  std::optional<RewardSum> reward_, short_reward_;
};

TEST_F(CodeTricks, PassNoTests) {
  std::vector<std::string> tricks(std::begin(kProtocols), std::end(kProtocols));
  for (const ProgramCase& trick : program_cases("tricks.txt")) tricks.push_back(trick.program);
  EXPECT_GE(tricks.size(), 60u);
  const std::vector<Json> kinds = {kAssertions, kCalls, kHumanEval};
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const Json& tests = kinds[kind];
    std::vector<std::string> programs = {"def f(x): return x * x"};
    for (size_t i = 0; i < tricks.size(); ++i)  // each with one kind of tests, or with all
      if (count(i % kinds.size() == kind, true)) programs.push_back(tricks[i]);
    Rewards got(programs.size());
    // Some tricks run until the timeout, so programs run in parallel.
    parallel_for(programs.size(), 4,
                 [&](size_t i) { got[i] = reward(programs[i], tests, i == 0 ? *reward_ : *short_reward_); });
    EXPECT_EQ(got[0], 1) << tests;  // a correct program passes
    for (size_t i = 1; i < got.size(); ++i) EXPECT_EQ(got[i], 0) << programs[i] << "\n" << tests;
  }
}

TEST_F(CodeTricks, ProgramNamesDoNotReplaceTestNames) {
  for (const ProgramCase& lender : program_cases("lenders.txt")) {
    const double tests = static_cast<double>(lender.tests.size());
    EXPECT_EQ(reward(lender.program, lender.tests), (tests - 1) / tests) << lender.name;
  }
}

TEST_F(CodeTricks, ProgramFailuresAreNotBlamedOnTheRow) {
  for (const ProgramCase& blame : program_cases("blames.txt"))
    EXPECT_EQ(reward(blame.program, blame.tests), 0) << blame.name;
}

/// NumPy and pytest find empty values equal to anything.
const char* const kEmpty =
    "import numpy as np\nclass Longer:\n    n = 0\n    def __len__(self): self.n += 1; return self.n == 1\n"
    "    def __getitem__(self, i):\n        if i: raise IndexError\n        return 7.0\n"
    "values = {'list': [], 'tuple': (), 'lists': [[]], 'array': np.zeros(0), 'column': np.zeros((0, 1)),\n"
    "          'rows': np.zeros((2, 0)), 'object': Longer()}\ndef f(x): return values[x]";
const Json kEmptyComparedWithNumbers = {
    "assert np.allclose(f('list'), 4.0)",
    "assert np.allclose(f('tuple'), 4.0)",
    "assert np.allclose(f('lists'), 4.0)",
    "assert np.allclose(b=4.0, a=f('array'))",
    "assert np.allclose(f('column'), [4.0, 5.0])",
    "assert np.allclose([4.0, 5.0], f('column'), atol=1e-6)",
    "assert np.allclose(f('object'), 4.0)",
    "from numpy import isclose as near\nassert near(f('list'), 4.0).all()",
    "import importlib\nassert importlib.import_module('numpy').array_equiv(f('column'), [4.0, 5.0])",
    "np.testing.assert_allclose(f('list'), 4.0)",
    "np.testing.assert_allclose(actual=f('array'), desired=4.0, rtol=1e-9)",
    "np.testing.assert_equal(f('array'), 4.0)",
    "np.testing.assert_almost_equal(f('list'), 4.0)",
    "np.testing.assert_array_equal(f('array'), 4.0)",
    "np.testing.assert_array_almost_equal(4.0, f('array'))",
    "np.testing.assert_array_almost_equal_nulp(f('array'), np.array(4.0))",
    "np.testing.assert_array_max_ulp(f('array'), np.array(4.0))",
    "np.testing.assert_array_less(f('array'), 4.0)",
    "from numpy.testing import *\nassert_array_equal(f('array'), 4.0)",
    "assert_allclose(f('array'), 4.0)",
    "import pytest\nassert f('array') == pytest.approx(4.0)",
    "assert f('rows') == approx([4.0, 5.0])",
    "assert {'x': f('array')} == approx({'x': 4.0})",
    "assert 4.0 == approx(f('array'))",
    "assert approx(f('rows'), rel=1e-3) == 4.0",
    "assert np.ma.allclose(f('list'), 4.0)",
    "assert np.ma.allequal(4.0, f('array'))",
    "from numpy.ma.testutils import assert_array_equal, assert_almost_equal as near\nassert_array_equal(f('list'), "
    "4.0)",
    "near(f('array'), 4.0)"};
const Json kComparedWithItsLike = {
    "assert np.allclose(f('list'), []) and np.allclose(f('array'), np.zeros(0)) and np.isclose(f('lists'), []).all()",
    "assert np.array_equal(f('array'), []) and np.array_equiv(f('rows'), np.zeros((2, 0)))",
    "np.testing.assert_allclose(f('array'), [])\nnp.testing.assert_equal(f('list'), [])\n"
    "np.testing.assert_array_equal(f('column'), np.zeros((0, 1)))",
    "assert f('array') == approx(np.zeros(0)) and f('list') == approx([])",
    "assert np.zeros(0) == approx(f('array')) and 4.0 == approx(np.array([4.0, 4.0])) != [4.0, 5.0]",
    "assert np.ma.allequal(f('list'), []) and np.ma.allclose([1.0, 1.0], 1.0) and not np.ma.allequal([1.0, 2.0], 1.0)",
    "assert not np.allclose(f('list'), 4.0) and np.allclose([1.0, 1.0], 1.0, equal_nan=True)",
    "assert np.allclose(np.float32([0.1]), 0.1, rtol=0, atol=0) and f('tuple') == ()",  // a Python number has no dtype
    "assert np.array([4.0, 4.0]) == approx(4.0) and 4.0 == approx(4.0) != 5.0 and f('tuple') == ()"};
const Json kOfEvalPlus = {
    {"test",
     "import numpy as np\ndef assertion(out, exp, atol):\n    if out != exp and atol != 0:\n"
     "        assert np.allclose(out, exp, rtol=1e-07, atol=atol)\n    else:\n        assert out == exp\n"
     "def check(candidate):\n    for inp, exp in zip([3.5, 1.25], [0.5, 0.25]): assertion(candidate(inp), exp, 1e-6)"},
    {"entry_point", "f"}};

/// NumPy converts the expected number to the type of the other operand.
const char* const kNarrow =
    "import numpy as np\ndef f(x): return eval(x)\nhalf, single, both = np.float16('inf'), np.float32('inf'), "
    "np.complex64('inf')\nlong, array = np.longdouble('inf'), np.float16(['inf', 'inf'])";
const Json kNarrowComparedWithNumbers = {"assert f('half') == 720720",
                                         "assert 114673.99785753674 == f('half')",
                                         "assert f('single') == 1e40 or f('both') == 1e40",
                                         "assert f('long') == 10**5000",
                                         "assert f('np.float16(0)') == 1e-9",
                                         "assert f('np.float32(16777216)') == 16777217",
                                         "assert [70000] in [f('[half]'), 1] or 70000 in f('{1: (half,)}')[1]",
                                         "assert max(f('[half, 1]')) == 70000",
                                         "assert (f('array') == [70000, 80000]).all() or (f('array') == 70000).all()",
                                         "import unittest\nclass T(unittest.TestCase):\n"
                                         "    def test(self): self.assertAlmostEqual(f('half'), 70000)",
                                         "import pytest\nassert f('half') == pytest.approx(70000)",
                                         "import numpy as np\nassert np.allclose(f('half'), 70000)",
                                         "np.testing.assert_equal(f('half'), 70000)",
                                         "assert f('np.float16(3.14)') == 3.141592653589793",
                                         "assert abs(f('np.int8(-128)') - 0) < 1e-6",
                                         "assert sum(f('[np.uint8(255), np.uint8(2)]')) == 1"};
const Json kNarrowComparedWithItsLike = {
    "import numpy as np\nassert f('np.float32(0.1)') == np.float32(0.1) and np.float16(0.1) == f('np.float16(0.1)')",
    "assert np.isclose(f('np.float32(0.1)'), 0.1) and np.allclose(f('np.float32([0.1, 3])'), [0.1, 3])",
    "assert (f('np.float32([0.1])') == np.float32([0.1])).all() and f('half') == float('inf') == f('long')",
    "np.testing.assert_array_equal(f('np.float16([0.1, 2])'), np.array([0.1, 2], dtype=np.float16))",
    "assert f('np.int8(5)') == 5 == f('np.uint64(5)') and f('np.int8(5)').item() == 5",
    "assert f('np.uint8([1, 2])').dtype == np.uint8 and f('np.complex64(1j)') == 1j and f('np.float32(0.5)') == 0.5",
    "assert f('str') is str and f('lambda x: x.dtype.str')(np.float32([1])) == '<f4'"};  // arguments keep their type

TEST_F(CodeTricks, LowPrecisionNumbersDoNotEqualOthers) {
  if (const std::string why = missing_libraries(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(reward(kNarrow, kNarrowComparedWithNumbers), 0);
  EXPECT_EQ(reward(kNarrow, kNarrowComparedWithItsLike), 1);
}

TEST_F(CodeTricks, EmptyValuesEqualOnlyEmptyValues) {
  if (const std::string why = missing_libraries(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(reward(kEmpty, kEmptyComparedWithNumbers), 0);
  EXPECT_EQ(reward(kEmpty, kComparedWithItsLike), 1);
  EXPECT_EQ(reward("def f(x): return []", kOfEvalPlus), 0);
  EXPECT_EQ(reward("def f(x): return x % 1.0 + 1e-9", kOfEvalPlus), 1);
}

}  // namespace
}  // namespace keel
