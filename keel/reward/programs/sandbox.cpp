#include "keel/reward/programs/sandbox.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/core/untrusted_text.h"
#include "keel/reward/programs/embedded.h"

namespace keel {
namespace {

/// Returns {"executable": ..., "folders": [...]} of the interpreter.
Json query_python(const std::string& python) {
  ChildProcess child({.command = {python, "-c",
                                  "import json, sys; print(json.dumps({'executable': sys.executable, 'folders': "
                                  "[sys.base_prefix, sys.prefix]}))"}});
  child.exchange({.input = "", .close_input = true, .deadline = seconds_from_now(60)});
  Json reply = try_parse_json(child.output()).value_or(Json());
  if (!reply.is_object() || !reply.value("executable", Json()).is_string())
    fail(ExitCode::kBadConfiguration, "reward.python: \"", python, "\" does not run; expected a Python 3 interpreter");
  return reply;
}

/// Returns the path of a program in PATH; empty if there is none.
std::string find_program(const std::string& name) {
  const char* folders = std::getenv("PATH");
  std::istringstream paths(folders != nullptr ? folders : "");
  for (std::string folder; std::getline(paths, folder, ':');)
    if (const std::string path = folder + "/" + name; folder.starts_with('/') && access(path.c_str(), X_OK) == 0)
      return path;
  return "";
}

}  // namespace

PythonSandbox::PythonSandbox(const std::string& python, const SandboxLimits& limits)
    : limits_(limits),
      executable_(create_memory_file("keel-sandbox", sandbox_program())),
      executable_path_(path_for_children(executable_)) {
  const Json installation = query_python(python);
  python_ = installation["executable"];
  for (const Json& folder : installation["folders"]) folders_.push_back(folder);
  const std::string own_problem = find_problem();
  if (own_problem.empty()) return;
  bwrap_ = find_program("bwrap");
  const std::string bwrap_problem = bwrap_.empty() ? "it is not installed" : find_problem();
  if (bwrap_problem.empty()) return;
  fail(ExitCode::kBadConfiguration,
       "the code reward needs a sandbox, which does not work on this machine: ", own_problem,
       "; with bubblewrap: ", bwrap_problem,
       ". It needs Linux 5.14 or later, and one of: unprivileged user namespaces (sysctl "
       "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0); bubblewrap 0.8 or later "
       "with permission to create them (apt install bubblewrap); or root with CAP_SYS_ADMIN (docker run --cap-add "
       "SYS_ADMIN --security-opt seccomp=unconfined)");
}

/// Runs a test program; returns what went wrong, or "".
std::string PythonSandbox::find_problem() const {
  constexpr double kSeconds = 60;  // a generous limit: a busy machine is not a failure of the sandbox
  try {
    const SandboxRun trial = run("print(6 * int(input()))", "7", kSeconds);
    if (trial.succeeded() && trial.output == "42\n") return "";
    return "a program that prints 42 printed " + printable(trial.output);
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<ChildProcess> PythonSandbox::start(std::string_view program,
                                                   const std::vector<std::string>& arguments) const {
  const FileHandle source = create_memory_file("program", program);
  std::vector<std::string> command = {executable_path_};
  command.push_back("cpu=" + std::to_string(static_cast<int64_t>(std::ceil(limits_.seconds))));
  command.push_back("memory=" + std::to_string(limits_.memory_mib << 20));
  command.push_back("processes=" + std::to_string(limits_.processes));
  if (!bwrap_.empty()) command.push_back("bwrap=" + bwrap_);
  for (const std::string& folder : folders_) command.push_back("show=" + folder);
  command.insert(command.end(), {"--", python_, "-I", "-B"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  return std::make_unique<ChildProcess>(
      SpawnRequest{.command = command, .extra_input = source.get(), .capture_stderr = true});
}

void PythonSandbox::require_started(const ChildProcess& program) {
  const std::string& report = program.stderr_output();
  if (report.starts_with("failed"))
    fail(ExitCode::kRewardProgramFailed, "the sandbox ", report.substr(0, report.find('\n')));
}

SandboxRun PythonSandbox::run(std::string_view program, std::string_view input, double seconds) const {
  const Deadline deadline = seconds_from_now(seconds);
  const std::unique_ptr<ChildProcess> child = start(program, {"/tmp/main.py"});
  const ExchangeResult exchange =
      child->exchange({.input = input, .close_input = true, .max_output = limits_.max_output, .deadline = deadline});
  child->kill();
  SandboxRun result;
  result.output = std::move(child->output());
  require_started(*child);
  // "exited CODE" or "killed SIGNAL", from a process outside the sandbox.
  const std::string& report = child->stderr_output();
  if (exchange == ExchangeResult::kTimeout)
    result.end = SandboxRun::End::kTimeout;
  else if (exchange == ExchangeResult::kTooLong)
    result.end = SandboxRun::End::kTooMuchOutput;
  else if (report.starts_with("killed"))
    result.end = SandboxRun::End::kKilled;
  else if (!report.starts_with("exited"))
    fail(ExitCode::kRewardProgramFailed, "the sandbox ended with the message ",
         printable(report.substr(0, report.find('\n'))));
  if (const size_t space = report.find(' '); space != std::string::npos)
    result.code = std::atoi(report.c_str() + space);
  return result;
}

}  // namespace keel
