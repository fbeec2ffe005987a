#pragma once

// Calls and assertions about a Python program's functions. The program runs in one sandbox and its judge, which runs
// the tests, in another: they share no process, memory, file or signal, only lines that go through here. The judge has
// the program's names as stand-ins; a call of one becomes a line to the program, which answers with a value, and the
// judge compares that with what it expects, which the program is never told. code_values.py has the form of values,
// code_judge.py and code_program.py the two ends.

#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"
#include "keel/reward/programs/sandbox.h"

namespace keel {

struct CheckReport {
  size_t passed = 0;
  std::string note;   // why the first check that did not pass did not
  std::string fault;  // of a test that nobody could pass or fail: why it cannot be judged; empty: there is none
};

/// Runs the checks, each {"code": TEXT}, {"code": TEXT, "entry": EXPRESSION} (and then check(EXPRESSION)) or
/// {"call": NAME, "arguments": LIST OR TEXT, "want": VALUE}, within the sandbox's seconds for all together.
CheckReport run_checks(const PythonSandbox& sandbox, std::string_view program, const std::vector<Json>& checks);

}  // namespace keel
