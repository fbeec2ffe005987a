#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"
#include "keel/reward/functions/reward.h"
#include "keel/reward/programs/sandbox.h"

namespace keel {

/// The tests of a programming problem.
struct CodeTests {
  struct InputOutput {
    std::string input, output;
  };
  std::vector<InputOutput> io_tests;  // standard input and the expected output
  std::vector<Json> checks;           // tests of the program's functions, for run_checks()
  size_t size() const { return io_tests.size() + checks.size(); }
};

/// Parses the formats that data sets use (docs/code-reward.md). Throws std::invalid_argument.
CodeTests read_code_tests(const Json& answer);

/// Returns the last fenced code block of a completion, or the whole completion if it has none.
std::string extract_program(std::string_view completion);

/// Returns whether a program's output has the expected words on the same lines; decimal fractions may differ by 1e-6.
bool same_output(std::string_view got, std::string_view expected);

/// Runs the completion's Python program against the prompt's tests: 1 if it passes all, else 0. With
/// `fraction` it is the fraction of tests passed.
std::unique_ptr<Reward> code_reward(const std::string& python, const SandboxLimits& limits, bool fraction);

}  // namespace keel
