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
  double seconds = 10;       // wall-clock limit of one run
  int64_t memory_mib = 512;  // per process
  int64_t processes = 8;     // and threads, in total
  size_t max_output = size_t{4} << 20;
};

struct SandboxRun {
  enum class End { kExited, kKilled, kTimeout, kTooMuchOutput } end = End::kExited;
  int code = 0;  // exit code or signal
  std::string output;
  bool succeeded() const { return end == End::kExited && code == 0; }
};

/// Runs untrusted Python programs, each in its own namespaces: no network, only system and Python files (read-only),
/// and resource limits (sandbox/confine.h). run() leaves no processes. Uses bubblewrap if only it may create
/// namespaces.
class PythonSandbox {
 public:
  /// Tests the sandbox. Throws an Error (kBadConfiguration) if this machine does not allow it; there is no weaker mode.
  /// Bubblewrap is the program bwrap in PATH.
  PythonSandbox(const std::string& python, const SandboxLimits& limits);

  /// `program` becomes /tmp/main.py. Throws an Error (kRewardProgramFailed) if it cannot be started.
  SandboxRun run(std::string_view program, std::string_view input) const {
    return run(program, input, limits_.seconds);
  }

  /// Starts a program with these Python arguments. The caller handles input, output and the deadline.
  std::unique_ptr<ChildProcess> start(std::string_view program, const std::vector<std::string>& arguments) const;
  /// Throws an Error (kRewardProgramFailed) if an ended program was never started.
  static void require_started(const ChildProcess& program);

  double seconds() const { return limits_.seconds; }

  /// "namespaces", or "bubblewrap (/usr/bin/bwrap)".
  std::string backend() const { return bwrap_.empty() ? "namespaces" : "bubblewrap (" + bwrap_ + ")"; }

 private:
  SandboxRun run(std::string_view program, std::string_view input, double seconds) const;
  std::string find_problem() const;

  SandboxLimits limits_;
  FileHandle executable_;  // keel-sandbox, in memory
  std::string executable_path_, python_, bwrap_;
  std::vector<std::string> folders_;  // of the Python installation
};

}  // namespace keel
