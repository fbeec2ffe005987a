#pragma once

// A child process with piped standard input and output. The destructor kills its process group (for a supervised
// program: everything that it started), reaps it, and closes all descriptors.

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/files/file.h"

namespace keel {

using Deadline = std::chrono::steady_clock::time_point;

Deadline seconds_from_now(double seconds);
int milliseconds_until(Deadline deadline);  // at least 0

struct SpawnRequest {
  std::vector<std::string> command;  // the program is searched in PATH
  int extra_input = -1;              // file descriptor 3 of the child
  bool capture_stderr = false;       // else the child inherits standard error
  /// A supervisor process (sandbox/supervisor.h) kills all descendants of the program, in any session, when the program
  /// or this process ends. If the program kills the supervisor, this process kills them. Excludes extra_input.
  bool supervised = false;
};

/// How an exchange ended. kEnd includes the death of the supervisor.
enum class ExchangeResult { kLine, kEnd, kTimeout, kTooLong };

struct ExchangeRequest {
  std::string_view input;
  bool close_input = false;  // then waits for the end of the output, else for one line
  size_t max_output = size_t{64} << 20;
  Deadline deadline;
  bool interruptible = true;  // an interrupt ends the exchange
};

class ChildProcess {
 public:
  /// Throws an Error (kBadConfiguration) if the program cannot be started.
  explicit ChildProcess(const SpawnRequest& request);
  /// Closes the input, waits 0.2 s for the program to exit, and kills the rest of its group.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Writes the input and reads at the same time, so that full pipes cannot deadlock. Never raises SIGPIPE. output()
  /// and stderr_output() have what was read. Throws Interrupted after a stop request.
  ExchangeResult exchange(const ExchangeRequest& request);
  std::string& output() { return output_; }
  const std::string& stderr_output() const { return stderr_output_; }

  /// Kills the group, or everything supervised, and waits until all holders of the output pipe are gone.
  void kill();
  /// "exit code 3" or "signal 11 (Segmentation fault)"; empty while it runs.
  std::string exit_status() const;

 private:
  bool has_ended() const;

  pid_t pid_ = -1;
  FileHandle supervisor_;  // closing it makes the supervisor kill everything
  FileHandle input_, output_pipe_, stderr_pipe_;
  std::string output_, stderr_output_;
  bool reaped_ = false;
};

}  // namespace keel
