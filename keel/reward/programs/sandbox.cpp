#include "keel/reward/programs/sandbox.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/foreign_text.h"
#include "keel/core/json_reader.h"
#include "keel/reward/programs/embedded.h"

namespace keel {
namespace {

/// {"executable": ..., "folders": [...]}, as the interpreter itself says.
Json ask_python(const std::string& python) {
  ChildProcess child({.command = {python, "-c",
                                  "import json, sys; print(json.dumps({'executable': sys.executable, 'folders': "
                                  "[sys.base_prefix, sys.prefix]}))"}});
  child.exchange({.input = "", .close_input = true, .deadline = seconds_from_now(60)});
  Json answer = try_parse_json(child.output()).value_or(Json());
  if (!answer.is_object() || !answer.value("executable", Json()).is_string())
    fail(ExitCode::kBadConfiguration, "reward.python: \"", python, "\" does not run; expected a Python 3 interpreter");
  return answer;
}

/// A program in PATH; empty where there is none.
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
      executable_(file_in_memory("keel-sandbox", sandbox_program())),
      executable_path_(path_for_children(executable_)) {
  const Json answer = ask_python(python);
  python_ = answer["executable"];
  for (const Json& folder : answer["folders"]) folders_.push_back(folder);
  const std::string alone = why_not();
  if (alone.empty()) return;
  bwrap_ = find_program("bwrap");
  const std::string wrapped = bwrap_.empty() ? "it is not installed" : why_not();
  if (wrapped.empty()) return;
  fail(ExitCode::kBadConfiguration,
       "the code reward runs programs of the model's only in a sandbox, and here there is ", "none: ", alone,
       "; and by bubblewrap: ", wrapped, ". It needs Linux 5.14 or later, and one of: user namespaces ",
       "that anyone may make (sysctl kernel.unprivileged_userns_clone=1, "
       "kernel.apparmor_restrict_unprivileged_userns=0)",
       "; a bubblewrap that may make them (apt install bubblewrap, 0.8 or later); or root with CAP_SYS_ADMIN (docker "
       "run ",
       "--cap-add SYS_ADMIN --security-opt seccomp=unconfined)");
}

/// What keeps a program from running here; empty: nothing.
std::string PythonSandbox::why_not() const {
  constexpr double kSeconds = 60;  // a busy machine, or a short time for programs, is no lack of a sandbox
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
  const FileHandle source = file_in_memory("program", program);
  std::vector<std::string> command = {executable_path_};
  command.push_back("cpu=" + std::to_string(static_cast<int64_t>(std::ceil(limits_.seconds))));
  command.push_back("memory=" + std::to_string(limits_.memory_mib << 20));
  command.push_back("processes=" + std::to_string(limits_.processes));
  if (!bwrap_.empty()) command.push_back("bwrap=" + bwrap_);
  for (const std::string& folder : folders_) command.push_back("show=" + folder);
  command.insert(command.end(), {"--", python_, "-I", "-B"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  return std::make_unique<ChildProcess>(
      SpawnRequest{.command = command, .extra_input = source.get(), .capture_errors = true});
}

void PythonSandbox::require_started(const ChildProcess& program) {
  const std::string& report = program.errors();
  if (report.starts_with("failed"))
    fail(ExitCode::kRewardProgramFailed, "the sandbox ", report.substr(0, report.find('\n')));
}

SandboxRun PythonSandbox::run(std::string_view program, std::string_view input, double seconds) const {
  const Deadline deadline = seconds_from_now(seconds);
  const std::unique_ptr<ChildProcess> child = start(program, {"/tmp/main.py"});
  const Exchanged how =
      child->exchange({.input = input, .close_input = true, .max_output = limits_.max_output, .deadline = deadline});
  child->kill();
  SandboxRun result;
  result.output = std::move(child->output());
  require_started(*child);
  // "exited CODE" or "killed SIGNAL", from a process that the program cannot reach.
  const std::string& report = child->errors();
  if (how == Exchanged::kTimeout)
    result.end = SandboxRun::End::kTimeout;
  else if (how == Exchanged::kTooLong)
    result.end = SandboxRun::End::kTooMuchOutput;
  else if (report.starts_with("killed"))
    result.end = SandboxRun::End::kKilled;
  else if (!report.starts_with("exited"))
    fail(ExitCode::kRewardProgramFailed, "the sandbox ended with the words ",
         printable(report.substr(0, report.find('\n'))));
  if (const size_t space = report.find(' '); space != std::string::npos)
    result.code = std::atoi(report.c_str() + space);
  return result;
}

}  // namespace keel
