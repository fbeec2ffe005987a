#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/files/file.h"
#include "keel/reward/programs/child_process.h"

namespace keel {

struct SandboxLimits {
  double seconds = 10;       // of the clock, for one run
  int64_t memory_mib = 512;  // of each process
  int64_t processes = 8;     // and threads
  size_t max_output = size_t{4} << 20;
};

struct SandboxRun {
  enum class End { kExited, kKilled, kTimeout, kTooMuchOutput } end = End::kExited;
  int code = 0;  // exit code or signal
  std::string output;
  bool succeeded() const { return end == End::kExited && code == 0; }
};

/// Runs Python programs that nobody has read, each in namespaces of its own: no network, no files but the system's and
/// Python's (read-only), limits on everything (sandbox/confine.h). When run() returns, no process of it is left. Where
/// only bubblewrap may make namespaces, it does.
class PythonSandbox {
 public:
  /// Tries it out; an Error (kBadConfiguration) says what this machine does not allow. There is no weaker way.
  /// Bubblewrap is the program bwrap in PATH.
  PythonSandbox(const std::string& python, const SandboxLimits& limits);

  /// `program` is the file /tmp/main.py. An Error (kRewardProgramFailed) when it could not be started.
  SandboxRun run(std::string_view program, std::string_view input) const {
    return run(program, input, limits_.seconds);
  }

  /// The same, begun, with these arguments of Python: its input and output are the caller's, and the clock is. What it
  /// was started as it stays until the object is gone.
  std::unique_ptr<ChildProcess> start(std::string_view program, const std::vector<std::string>& arguments) const;
  /// An Error (kRewardProgramFailed) when a program that has ended was never started.
  static void require_started(const ChildProcess& program);

  double seconds() const { return limits_.seconds; }

  /// "namespaces", or "bubblewrap (/usr/bin/bwrap)".
  std::string backend() const { return bwrap_.empty() ? "namespaces" : "bubblewrap (" + bwrap_ + ")"; }

 private:
  SandboxRun run(std::string_view program, std::string_view input, double seconds) const;
  std::string why_not() const;

  SandboxLimits limits_;
  FileHandle executable_;  // keel-sandbox, in memory
  std::string executable_path_, python_, bwrap_;
  std::vector<std::string> folders_;  // that Python needs
};

}  // namespace keel
