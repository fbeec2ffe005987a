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
  struct Dialog {
    std::string input, output;
  };
  std::vector<Dialog> dialogs;  // what goes to standard input, what must come out: judged from outside
  std::vector<Json> checks;     // of its functions, as run_checks takes them
  size_t size() const { return dialogs.size() + checks.size(); }
};

/// Reads the forms that data sets use (docs/code-reward.md); a std::invalid_argument says what is wrong.
CodeTests read_code_tests(const Json& answer);

/// The last fenced block of a completion, or the whole of it when there is none.
std::string extract_program(std::string_view completion);

/// Whether a program's output is what was asked for: the same words on the same lines; decimal fractions within 1e-6.
bool same_output(std::string_view got, std::string_view want);

/// Runs the completion's Python program against the prompt's tests: 1 when it passes all, else 0, or, with `fraction`,
/// the part that it passes.
std::unique_ptr<Reward> code_reward(const std::string& python, const SandboxLimits& limits, bool fraction);

}  // namespace keel
