#pragma once

// Runs calls and assertions against a Python program's functions. The program and the test runner, which executes the
// tests, run in separate sandboxes. They exchange only lines, through this process. The test runner has proxies for the
// program's names: calling one sends a line to the program, which returns a value. The test runner compares it with the
// expected value, which the program never gets. code_values.py serialises values; code_test_runner.py and
// code_program.py are the two ends.

#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"
#include "keel/reward/programs/sandbox.h"

namespace keel {

struct CheckReport {
  size_t passed = 0;
  std::string note;   // why the first failed check failed
  std::string fault;  // why a test is invalid; empty if all tests are valid
};

/// Runs the checks, each {"code": TEXT}, {"code": TEXT, "entry": EXPRESSION} (and then check(EXPRESSION)) or
/// {"call": NAME, "arguments": LIST OR TEXT, "want": VALUE}, within the sandbox's time limit in total.
CheckReport run_checks(const PythonSandbox& sandbox, std::string_view program, const std::vector<Json>& checks);

}  // namespace keel
