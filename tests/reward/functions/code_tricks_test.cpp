// Programs that do not solve their problem and want the reward. All are asked for f(x) = x * x.

#include <gtest/gtest.h>

#include "keel/core/error.h"
#include "keel/core/parallel.h"
#include "tests/support/effort.h"
#include "tests/support/reward_samples.h"

namespace keel {
namespace {

struct Trick {
  const char *name, *program;
};

// Each ends with an f that is wrong, unless it is part of the trick.
constexpr Trick kTricks[] = {
    {"nothing", "def f(x): return 0"},
    {"exec does nothing", "import builtins\nbuiltins.exec = lambda *a: None\ndef f(x): return 0"},
    {"compile gives nothing",
     "import builtins\nold = compile\nbuiltins.compile = lambda *a, **k: old('', 'x', 'exec')\ndef f(x): return 0"},
    {"json.loads gives what is wanted", "import json\njson.loads = lambda *a, **k: 4\ndef f(x): return 0"},
    {"json.dumps says 4",
     "import json\nold = json.dumps\njson.dumps = lambda x, **k: old({**x, 'gives': 4} if 'gives' in x else x)\n"
     "def f(x): return 0"},
    {"comparing is always true",
     "import operator, builtins\noperator.eq = lambda *a: True\nbuiltins.all = builtins.any = lambda *a: True\n"
     "builtins.isinstance = lambda *a: True\nbuiltins.abs = lambda x: 0\ndef f(x): return 0"},
    {"no assertion fails",
     "import builtins\nbuiltins.AssertionError = type('E', (BaseException,), {})\ndef f(x): return 0"},
    {"equal to everything",
     "class Equal:\n    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = lambda *a: True\n    __ne__ = lambda *a: False\n"
     "    __hash__ = lambda self: 4\n    __sub__ = __rsub__ = __abs__ = __add__ = lambda self, *a: self\n"
     "def f(x): return Equal()"},
    {"a number that is equal to everything",
     "class Four(int):\n    __eq__ = __lt__ = lambda *a: True\n    __hash__ = int.__hash__\n    __sub__ = lambda *a: "
     "0\n"
     "def f(x): return Four(0)"},
    {"a list that is equal to everything, and holds everything",
     "class All(list):\n    __eq__ = __contains__ = lambda *a: True\ndef f(x): return All()"},
    {"differences are 0", "class Close:\n    __sub__ = __rsub__ = lambda self, other: 0\ndef f(x): return Close()"},
    {"says what it is compared with",
     "class Echo:\n    def __eq__(self, other):\n        return True\n    def __float__(self): return 9.0\n"
     "    def __sub__(self, other): return other - other\ndef f(x): return Echo()"},
    {"mock.ANY", "from unittest.mock import ANY\ndef f(x): return ANY"},
    {"MagicMock", "from unittest.mock import MagicMock\nf = MagicMock()\nf.return_value.__eq__ = lambda *a: True"},
    {"another class",
     "class Lie:\n    @property\n    def __class__(self): return int\n    __eq__ = lambda *a: True\n"
     "def f(x): return Lie()"},
    {"leaves at once", "import os\nos._exit(0)"},
    {"leaves when it is called", "import os\ndef f(x): os._exit(0)"},
    {"SystemExit", "raise SystemExit(0)"},
    {"SystemExit when it is called", "import sys\ndef f(x): sys.exit(0)"},
    {"KeyboardInterrupt", "def f(x): raise KeyboardInterrupt"},
    {"StopIteration ends the loops of tests", "def f(x): raise StopIteration"},
    {"GeneratorExit", "def f(x): raise GeneratorExit"},
    {"an exception of its own that is no Exception", "class E(BaseException): pass\ndef f(x): raise E"},
    {"prints verdicts wherever it can",
     "import os\nfor i in range(64):\n    try: os.write(i, b'pass \\npass \\npass \\npass \\ndone\\n')\n    except "
     "OSError: pass\n"
     "def f(x): return 0"},
    {"prints verdicts and leaves",
     "import os\nfor i in range(64):\n    try: os.write(i, b'pass \\npass \\npass \\npass \\ndone\\n')\n    except "
     "OSError: pass\n"
     "os._exit(0)"},
    {"answers before it is asked",
     "import __main__, json, os\n"
     "def say(x): os.write(4, json.dumps({'id': __main__.program.serving, 'changed': {}, 'gives': x}).encode() + "
     "b'\\n')\n"
     "def f(x):\n    say(0), say(4), say(9), say(25), say(36)\n    return 0"},
    {"answers on a thread of its own",
     "import __main__, json, os, threading\n"
     "def talk():\n    while True:\n        for x in (3, 8, 24):\n"
     "            os.write(4, json.dumps({'id': __main__.program.serving, 'changed': {}, 'gives': x}).encode() + "
     "b'\\n')\n"
     "def f(x):\n    threading.Thread(target=talk, daemon=True).start()\n    return 0"},
    {"closes everything", "import os\nos.closerange(0, 64)\ndef f(x): return 0"},
    {"a child answers, and says yes",
     "import os\nif os.fork() == 0:\n    while True:\n        try: os.write(4, b'pass \\n')\n        except OSError: "
     "os._exit(0)\n"
     "def f(x): return 0"},
    {"looks for the tests in memory",
     "import gc, sys, re\n"
     "def f(x):\n    texts = [str(y) for y in gc.get_objects() if isinstance(y, (str, list, dict))]\n"
     "    frame = sys._getframe()\n    while frame: texts.append(str(frame.f_locals)); frame = frame.f_back\n"
     "    found = re.findall(r'f\\(%d\\) == (\\d+)|want\\D+(\\d+)' % x, ' '.join(texts))\n"
     "    return int(max(found[0])) if found else 0"},
    {"looks for the tests in files",
     "import os, re\n"
     "def f(x):\n    for folder in ('/tmp', '/proc/1', '/proc/self', '/dev/shm'):\n        for path, _, names in "
     "os.walk(folder):\n"
     "            for name in names:\n                try: text = open(os.path.join(path, name)).read()\n"
     "                except Exception: continue\n                found = re.findall(r'== (\\d+)', text)\n"
     "                if found and 'os.walk' not in text: return int(found[0])\n    return 0"},
    {"an abs of its own", "def abs(x): return 0\ndef set(x): return {36}\ndef f(x): return 0"},
    {"names of the tests' own", "def check(candidate): pass\nvalues = [0]\ndef f(x): return 0"},
    {"changes what it is given", "def f(x):\n    x = 0\n    return x"},
    {"a trace function",
     "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)\ndef f(x): return 0"},
    {"signals",
     "import os, signal\nfor p in (1, -1, os.getppid()):\n    for s in (9, 15, 19):\n        try: os.kill(p, s)\n"
     "        except OSError: pass\ndef f(x): return 0"},
    {"modules of its own",
     "import sys, types\nfor name in ('json', 'operator', 'math', 'ast', 'builtins'): sys.modules[name] = "
     "types.ModuleType(name)\n"
     "def f(x): return 0"},
    {"f is a module", "import math as f"},
    {"f is a class that pretends",
     "class f(int):\n    def __new__(cls, x): return int.__new__(cls, 0)\n    __eq__ = lambda *a: True"},
    {"a class that is asked about instances",
     "class Meta(type):\n    __instancecheck__ = __eq__ = __contains__ = lambda *a: True\nclass f(metaclass=Meta):\n"
     "    def __new__(cls, x): return cls"},
    {"no number", "def f(x): return float('nan')"},
    {"everything at once", "def f(x): return [4, 9, 25, 36]"},
    {"without end", "def f(x):\n    while True: yield x"},
    {"very deep", "def f(x):\n    y = []\n    for _ in range(900): y = [y]\n    return y"},
    {"very long", "def f(x): return 'x' * 50_000_000"},
};

/// Speaks for itself: every request is answered with the same.
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
    own_protocol("{'tuple': ['value', 4]}"),  // also to the question what an object is compared by
    own_protocol("{'nothing': 0}"),
    own_protocol("[1, 4]"),  // a container's number, and what it holds
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

/// Programs that lend their tests names: what a test calls by a name of Python's, of a well-known module or of its own
/// is never the program's. The last test of each is not to be passed.
struct Lender {
  const char *name, *program;
  Json tests;
};

const Lender kLenders[] = {
    {"abs, where the program is imported",
     "abs = lambda x: 0\ndef f(x): return 99",
     {"from solution import f\nassert abs(f(2) - 4) < 1e-6"}},
    {"abs, where its module is",
     "abs = lambda x: 0\ndef f(x): return 99",
     {"import solution as s\nassert abs(s.f(2) - 4) < 1e-6"}},
    {"abs, where it is imported by a text",
     "abs = lambda x: 0\ndef f(x): return 99",
     {"import importlib\ns = importlib.import_module('solution')\nassert abs(s.f(2) - 4) < 1e-6"}},
    {"round, in unittest",
     "round = lambda *a: 4\ndef f(x): return 99",
     {"import unittest\nfrom solution import f\nclass T(unittest.TestCase):\n"
      "    def test(self): self.assertEqual(round(f(2), 2), 4)"}},
    {"isinstance, of an object",
     "isinstance = lambda *a: True\nclass Solution:\n    def f(self, x): return 5",
     {"from solution import Solution\ns = Solution()\nassert isinstance(s.f(2), str)"}},
    {"a helper that an earlier test assigned",
     "same = lambda a, b: True\ndef f(x): return [1] if x == 1 else 0",
     {"same = lambda a, b: sorted(a) == sorted(b)\nassert same(f(1), [1])", "assert same(f(2), [2, 1])"}},
    {"what an earlier test imported by a star",
     "fsum = lambda x: 7\ndef f(x): return 2 if x == 4 else 7",
     {"from math import *\nassert f(4) == fsum([2])", "assert f(9) == fsum([3])"}},
    {"datetime", "datetime = lambda *a: 7\ndef f(x): return 7", {"assert f(2) == datetime(2020, 1, 1)"}},
    {"date", "date = lambda *a: 7\ndef f(x): return 7", {"assert f(2) == date(2020, 1, 1)"}},
    {"pi", "pi = 1\ndef f(x): return 4", {"assert f(2) == 4 * pi"}},
    {"inf", "inf = 1\ndef f(x): return 1", {"assert f(2) == inf"}},
    {"abs, where the program's class becomes an object",
     "abs = lambda x: 0\nclass Solution:\n    def f(self, x): return 99",
     {"Solution = Solution()\nassert abs(Solution.f(2) - 4) < 1e-6"}},
    {"abs, where the function is assigned",
     "abs = lambda x: 0\ndef f(x): return 99",
     {"f = f\nassert abs(f(2) - 4) < 1"}},
    {"abs, in a loop over it",
     "abs = lambda x: 0\ndef f(x): return 99",
     {"for f in [f]:\n    assert abs(f(2) - 4) < 1"}},
    {"len, where the name is tried",
     "len = lambda x: 4\ndef f(x): return [99]",
     {"try:\n    f = f\nexcept NameError:\n    pass\nassert len(f(2)) == 4"}},
    {"isclose, where an earlier test asked",
     "isclose = lambda *a: True\ndef f(x): return 99",
     {"r = f(2)", "assert isclose(r, 4)"}},
    {"isclose, where an earlier test imported the program",
     "isclose = lambda *a: True\ndef f(x): return 99",
     {"from solution import f", "assert isclose(f(2), 4)"}},
    {"sqrt, where an earlier test imported the program by another name",
     "sqrt = lambda x: 99\ndef f(x): return 99",
     {"import solution as s", "assert s.f(2) == sqrt(16)"}},
    {"eval", "eval = lambda x: True\ndef f(x): return 99", {"assert eval('f(2) == 4')"}},
    {"exec", "exec = lambda x: None\ndef f(x): return 99", {"exec('assert f(2) == 4')"}},
    {"globals", "globals = lambda: {'f': lambda x: 4}\ndef f(x): return 99", {"assert globals()['f'](2) == 4"}},
    {"all, of texts", "all = lambda x: True\ndef f(x): return 99", {"assert all(eval(s) for s in ['f(2) == 4'])"}},
    {"sqrt", "sqrt = lambda x: 7\ndef f(x): return 7", {"assert f(16) == sqrt(16)"}},
    {"permutations",
     "permutations = lambda x: [7]\ndef f(x): return [7]",
     {"assert f([1]) == list(permutations([1]))"}},
    {"hashlib",
     "class hashlib:\n    class md5:\n        def __init__(self, x): pass\n        def hexdigest(self): return 'x'\n"
     "def f(x): return 'x'",
     {"assert f('a') == hashlib.md5(b'a').hexdigest()"}},
    {"copy", "copy = lambda x: x\ndef f(x): x.append(1)", {"a = [1]\nb = copy(a)\nf(a)\nassert b == [1, 1]"}},
    {"assert_equal", "assert_equal = lambda *a: None\ndef f(x): return 99", {"assert_equal(f(2), 4)"}},
    {"AssertionError",
     "Bad = AssertionError\ndef f(x): return 0",
     {"try:\n    f(-1)\n    assert False, 'no error'\nexcept Bad: pass"}},
    {"Exception, in unittest",
     "Bad = Exception\ndef f(x): return 0",
     {"import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        try:\n            f(-1)\n"
      "            self.fail()\n        except Bad: pass"}},
    {"AssertionError among others",
     "Bad = (ValueError, AssertionError)\ndef f(x): return 0",
     {"import contextlib\nwith contextlib.suppress(*Bad):\n    f(-1)\n    assert False"}},
    {"AssertionError, by an attribute",
     "class A:\n    Bad = AssertionError\n    def f(self, x): return 0",
     {"a = A()\ntry:\n    a.f(-1)\n    raise AssertionError\nexcept A.Bad: pass"}},
};

/// What a program answers is its own fault, and never the row's, which would end a run.
const Lender kBlames[] = {
    {"a class that the test hands back", "def g(x): return ValueError\ndef f(x): return 1", {"assert f(g(2)) == 4"}},
    {"what the test makes of an answer", "def g(x): return {}\ndef f(x): return 1", {"assert f(g(2).keys()) == 4"}},
    {"a module that is not there", "import types\nf = types.ModuleType('pandas')", {"assert f(2) == 4"}},
    {"a hook of NumPy's",
     "class A:\n    def __array_wrap__(self, *a): return 4\ndef f(x): return A()",
     {"assert getattr(f(2), '__array_wrap__', lambda x: 0)(object()) == 4"}},
    {"a module that it names", "def f(x): return 'zz'", {"import importlib\nassert importlib.import_module(f(2))"}},
    {"a text that imports", "def f(x): return \"__import__('zz')\"", {"assert eval(f(2)) == 4"}},
    {"a text that speaks for the judge",
     "def f(x): return \"__import__('sys').modules['__main__'].PROGRAM.channel.write('pass ')\"",
     {"assert eval(f(2)) == 4"}},
    {"a text that is equal to everything",
     "def f(x): return \"type('E', (), {'__eq__': lambda s, o: True})()\"",
     {"assert eval(f(2)) == 4"}},
    {"a word of a message that names what is expected",
     "def f(x): return 'expected'",
     {"expected = 4\nassert eval(f(2)) == expected, 'not the expected value'"}},
    {"a letter of a message", "def f(x): return 'n'", {"n = 4\nassert eval(f(2)) == n, 'wrong'"}},
    {"a tree of a text",
     "def f(x): return \"type('E', (), {'__eq__': lambda s, o: True})()\"",
     {"import ast\nassert eval(compile(ast.parse(f(2), mode='eval'), '', 'eval')) == 4"}},
    {"a text in bytes",
     "def f(x): return bytearray(b\"type('E', (), {'__eq__': lambda s, o: True})()\")",
     {"assert eval(memoryview(f(2))) == 4"}},
    {"a set that is told what is expected",
     "class S:\n    def difference(self, x): self.x = x; return set()\n    def __iter__(self): return iter(self.x)\n"
     "def f(x): return S()",
     {"import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertSetEqual(f(2), {4, 5})"}},
    {"a set that is told what is expected, outside of a class for it",
     "class S(set):\n    def difference(self, x): self.update(x); return set()\ndef f(x): return S()",
     {"import unittest\nunittest.TestCase().assertSetEqual(f(2), {4, 5})"}},
    {"a class that is none of exceptions, where one is caught",
     "class Bad:\n    def __init__(self, *a): pass\ndef f(x): raise ValueError",
     {"import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        Bad('x')\n"
      "        with self.assertRaises((Bad, KeyError)): f(1)"}},
    {"a function in place of a class of exceptions",
     "def Bad(*a): return ValueError(*a)\ndef f(x): raise ValueError",
     {"Bad('x')\nassert issubclass(Bad, Exception)"}},
    {"objects of its own in place of values", "class N: pass\ndef f(x): return N()", {"assert f(2) is f(2)"}},
    {"an import that failed, which the test calls another",
     "def f(x): raise ImportError('x')",
     {"try:\n    f(2)\nexcept ImportError as error:\n    raise ModuleNotFoundError(str(error))"}},
    {"an exception that ends a thread of the test's",
     "def f(x): raise ValueError",
     {"import threading\nout = []\nthread = threading.Thread(target=lambda: out.append(f(2)))\nthread.start()\n"
      "thread.join()\nassert out == [4]"}},
    {"an object of two values, at once",
     "import __main__\nclass T(tuple): pass\nn = [0]\ndef plain(x):\n    n[0] += 1\n"
     "    return 'value', (10**9 if n[0] % 2 else -10**9,)\n__main__.program.do['plain'] = plain\ndef f(x): return T()",
     {"r = f(2)\nassert r >= (3,) and r <= (5,)"}},
    {"an object of two values, one after the other",
     "import __main__\nclass T(tuple): pass\nn = [0]\ndef plain(x):\n    n[0] += 1\n    return 'value', (n[0],)\n"
     "__main__.program.do['plain'] = plain\ndef f(x): return T()\ndef g(): pass",
     {"r = f(2)\nassert r != (2,)\ng()\nassert r == (2,)"}},
    {"what every stand-in is", "class N: pass\ndef f(x): return N()", {"assert callable(f(2))"}},
    {"what every stand-in has", "class N: pass\ndef f(x): return N()", {"assert hasattr(f(2), '__len__')"}},
    {"what every stand-in says of itself", "def f(x): return 4", {"assert f.__doc__ and f(2) == 4"}},
    {"a list that it keeps", "kept = []\ndef f(x): return kept", {"r = f(2)\nr.append(1)\nassert f(2) == []"}},
    {"the same list again", "kept = []\ndef f(x): return kept", {"assert f(2) is not f(2)"}},
    {"a name that is not there",
     "",
     {"try:\n    from solution import f\nexcept ImportError:\n    pass\nelse:\n    assert f(2) == 4"}},
};

/// The rewards of programs, by the parts of tests that they pass.
class CodeTricks : public testing::Test {
 protected:
  void SetUp() override {
    RewardOptions options;
    options.functions = {"code:fraction"};
    options.code_seconds = 4;
    try {
      reward_.emplace(make_reward(options));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadConfiguration);
      GTEST_SKIP() << error.what();
    }
  }
  /// Why tests that import them cannot be run here; empty where they can.
  std::string missing_libraries() const {
    try {
      reward("def f(x): return x", {"import numpy, pytest\nassert f(1) == 1"});
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::optional<double> reward(const std::string& program, const Json& tests) const {
    SampleBatch batch;
    batch.add("```python\n" + program + "\n```", tests);
    return reward_->judge(batch.samples()).totals.at(0);
  }
  std::optional<RewardSum> reward_;
};

TEST_F(CodeTricks, PassNoTest) {
  std::vector<std::string> tricks(std::begin(kProtocols), std::end(kProtocols));
  for (const Trick& trick : kTricks) tricks.push_back(trick.program);
  EXPECT_GE(tricks.size(), 60u);
  const std::vector<Json> kinds = {kAssertions, kCalls, kHumanEval};
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const Json& tests = kinds[kind];
    std::vector<std::string> programs = {"def f(x): return x * x"};
    for (size_t i = 0; i < tricks.size(); ++i)  // each against one kind of tests, or against all
      if (count(i % kinds.size() == kind, true)) programs.push_back(tricks[i]);
    Rewards got(programs.size());
    // Some are waited for until their time is up: others go on meanwhile.
    parallel_for(programs.size(), 4, [&](size_t i) { got[i] = reward(programs[i], tests); });
    EXPECT_EQ(got[0], 1) << tests;  // the tests can be passed
    for (size_t i = 1; i < got.size(); ++i) EXPECT_EQ(got[i], 0) << programs[i] << "\n" << tests;
  }
}

TEST_F(CodeTricks, NoNameOfTheProgramsStandsInForTheTests) {
  for (const Lender& lender : kLenders) {
    const double tests = static_cast<double>(lender.tests.size());
    EXPECT_EQ(reward(lender.program, lender.tests), (tests - 1) / tests) << lender.name;
  }
}

TEST_F(CodeTricks, WhatAProgramDoesIsNotTheRowsFault) {
  for (const Lender& blame : kBlames) EXPECT_EQ(reward(blame.program, blame.tests), 0) << blame.name;
}

/// NumPy and pytest take what is empty for whatever it is compared with.
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
    "assert np.allclose(np.float32([0.1]), 0.1, rtol=0, atol=0) and f('tuple') == ()",  // a number has no precision
    "assert np.array([4.0, 4.0]) == approx(4.0) and 4.0 == approx(4.0) != 5.0 and f('tuple') == ()"};
const Json kOfEvalPlus = {
    {"test",
     "import numpy as np\ndef assertion(out, exp, atol):\n    if out != exp and atol != 0:\n"
     "        assert np.allclose(out, exp, rtol=1e-07, atol=atol)\n    else:\n        assert out == exp\n"
     "def check(candidate):\n    for inp, exp in zip([3.5, 1.25], [0.5, 0.25]): assertion(candidate(inp), exp, 1e-6)"},
    {"entry_point", "f"}};

/// NumPy takes what is expected for a number of the type that it is compared with.
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
    "assert f('str') is str and f('lambda x: x.dtype.str')(np.float32([1])) == '<f4'"};  // what is handed over

TEST_F(CodeTricks, NumbersOfFewBitsAreLikeNoOthers) {
  if (const std::string why = missing_libraries(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(reward(kNarrow, kNarrowComparedWithNumbers), 0);
  EXPECT_EQ(reward(kNarrow, kNarrowComparedWithItsLike), 1);
}

TEST_F(CodeTricks, WhatIsEmptyIsLikeNothingElse) {
  if (const std::string why = missing_libraries(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(reward(kEmpty, kEmptyComparedWithNumbers), 0);
  EXPECT_EQ(reward(kEmpty, kComparedWithItsLike), 1);
  EXPECT_EQ(reward("def f(x): return []", kOfEvalPlus), 0);
  EXPECT_EQ(reward("def f(x): return x % 1.0 + 1e-9", kOfEvalPlus), 1);
}

}  // namespace
}  // namespace keel
