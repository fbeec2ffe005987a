#include "keel/reward/functions/code_checks.h"

#include <stdexcept>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/core/foreign_text.h"
#include "keel/reward/programs/embedded.h"

namespace keel {
namespace {

constexpr size_t kLongestLine = size_t{16} << 20;  // a call's arguments or its value

/// One side of the conversation: a line there, a line back.
class Side {
 public:
  Side(std::unique_ptr<ChildProcess> process, Deadline deadline) : process_(std::move(process)), deadline_(deadline) {}

  /// The first line that came and was not read yet; a std::runtime_error says why there is none.
  std::string ask(const std::string& lines) {
    const Exchanged how = process_->exchange({.input = lines, .max_output = kLongestLine, .deadline = deadline_});
    if (how == Exchanged::kEnd) throw std::runtime_error("ended");
    if (how == Exchanged::kTimeout) throw std::runtime_error("took too long");
    if (how == Exchanged::kTooLong)
      throw std::runtime_error("answered with more than " + std::to_string(kLongestLine) + " bytes");
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

/// The program's answer, as the judge gets it: nothing that the program says can be taken for something else.
std::string answer_for_judge(Side& program, const std::string& message) {
  try {
    const std::string line = program.ask(message + "\n");
    return program.has_more() ? "!the program answered before it was asked\n" : "=" + line + "\n";
  } catch (const std::runtime_error& error) {
    return std::string("!the program ") + error.what() + "\n";
  }
}

/// Adds what the judge said of the check with this number.
void add_verdict(const std::string& verdict, const std::string& why, size_t number, CheckReport& report) {
  const auto keep_first = [&](std::string& text, const std::string& reason) {
    if (text.empty()) text = "test " + std::to_string(number) + ": " + reason;
  };
  if (verdict == "pass")
    ++report.passed;
  else if (verdict == "fail")
    keep_first(report.note, why);
  else
    keep_first(report.fault, verdict == "cannot" ? why : "it disturbs its judge, which said " + printable(verdict));
}

void converse(Side& judge, Side& program, const std::vector<Json>& checks, CheckReport& report) {
  size_t judged = 0;
  for (std::string line = judge.ask(json_line({{"checks", checks}}) + "\n"); line != "done";) {
    const size_t space = line.find(' ');
    const std::string word = line.substr(0, space), rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word != "ask") add_verdict(word, rest, ++judged, report);
    line = judge.ask(word == "ask" ? answer_for_judge(program, rest) : "");
  }
  if (judged != checks.size()) {
    report.passed = 0;
    report.fault = "they disturb their judge, which gave " + std::to_string(judged) + " verdicts on " +
                   std::to_string(checks.size()) + " tests";
  }
}

}  // namespace

CheckReport run_checks(const PythonSandbox& sandbox, std::string_view program, const std::vector<Json>& checks) {
  const Deadline deadline = seconds_from_now(sandbox.seconds());
  Side judge(sandbox.start("", {"-c", code_judge()}), deadline);
  Side tested(sandbox.start(program, {"-c", code_program()}), deadline);
  CheckReport report;
  try {
    converse(judge, tested, checks, report);
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {  // its time is up, or what it was given is too much for it
    if (report.note.empty()) report.note = std::string("the tests ") + error.what();
  }
  tested.end();
  judge.end();
  return report;
}

}  // namespace keel
