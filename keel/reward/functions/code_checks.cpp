#include "keel/reward/functions/code_checks.h"

#include <stdexcept>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/core/untrusted_text.h"
#include "keel/reward/programs/embedded.h"

namespace keel {
namespace {

constexpr size_t kMaxCallBytes = size_t{16} << 20;  // of a call's arguments or its value

/// A sandboxed process that answers lines with lines.
class LineProcess {
 public:
  LineProcess(std::unique_ptr<ChildProcess> process, Deadline deadline)
      : process_(std::move(process)), deadline_(deadline) {}

  /// Sends lines and returns the next line of the output. Throws std::runtime_error if there is none.
  std::string request(const std::string& lines) {
    const ExchangeResult result =
        process_->exchange({.input = lines, .max_output = kMaxCallBytes, .deadline = deadline_});
    if (result == ExchangeResult::kEnd) throw std::runtime_error("ended");
    if (result == ExchangeResult::kTimeout) throw std::runtime_error("took too long");
    if (result == ExchangeResult::kTooLong)
      throw std::runtime_error("answered with more than " + std::to_string(kMaxCallBytes) + " bytes");
    std::string& output = process_->output();
    const size_t end = output.find('\n');
    std::string line = output.substr(0, end);
    output.erase(0, end + 1);
    return line;
  }
  bool has_more() const { return !process_->output().empty(); }

  void end() {
    process_->kill();
    PythonSandbox::require_started(*process_);
  }

 private:
  std::unique_ptr<ChildProcess> process_;
  Deadline deadline_;
};

/// Returns the program's reply for the test runner: "=REPLY", or "!ERROR", so that a reply cannot pose as an error.
std::string relay_to_program(LineProcess& program, const std::string& message) {
  try {
    const std::string line = program.request(message + "\n");
    return program.has_more() ? "!the program sent a reply without a request\n" : "=" + line + "\n";
  } catch (const std::runtime_error& error) {
    return std::string("!the program ") + error.what() + "\n";
  }
}

/// Adds the verdict of the test runner on one check to the report.
void add_verdict(const std::string& verdict, const std::string& why, size_t number, CheckReport& report) {
  const auto keep_first = [&](std::string& text, const std::string& reason) {
    if (text.empty()) text = "test " + std::to_string(number) + ": " + reason;
  };
  if (verdict == "pass")
    ++report.passed;
  else if (verdict == "fail")
    keep_first(report.note, why);
  else
    keep_first(report.fault,
               verdict == "cannot" ? why : "it interferes with the test runner, which returned " + printable(verdict));
}

void relay_lines(LineProcess& runner, LineProcess& program, const std::vector<Json>& checks, CheckReport& report) {
  size_t verdicts = 0;
  for (std::string line = runner.request(json_line({{"checks", checks}}) + "\n"); line != "done";) {
    const size_t space = line.find(' ');
    const std::string word = line.substr(0, space), rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word != "ask") add_verdict(word, rest, ++verdicts, report);
    line = runner.request(word == "ask" ? relay_to_program(program, rest) : "");
  }
  if (verdicts != checks.size()) {
    report.passed = 0;
    report.fault = "they interfere with the test runner, which returned " + std::to_string(verdicts) +
                   " verdicts for " + std::to_string(checks.size()) + " tests";
  }
}

}  // namespace

CheckReport run_checks(const PythonSandbox& sandbox, std::string_view program, const std::vector<Json>& checks) {
  const Deadline deadline = seconds_from_now(sandbox.seconds());
  LineProcess runner(sandbox.start("", {"-c", code_test_runner()}), deadline);
  LineProcess tested(sandbox.start(program, {"-c", code_program()}), deadline);
  CheckReport report;
  try {
    relay_lines(runner, tested, checks, report);
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {  // a timeout, or a line that is too long
    if (report.note.empty()) report.note = std::string("the tests ") + error.what();
  }
  tested.end();
  runner.end();
  return report;
}

}  // namespace keel
