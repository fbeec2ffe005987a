#pragma once

// Another program, its standard input and output in our hands. Nothing of it is left when the object is gone: no
// process of its group (of a kept program: none that it started), no zombie, no descriptor.

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
  std::vector<std::string> command;  // the first is looked up in PATH
  int extra_input = -1;              // becomes the child's descriptor 3
  bool capture_errors = false;       // else standard error is ours
  /// A process between us and the program holds on to all that it starts, in sessions of their own or not, and ends
  /// them with it or with us (sandbox/supervisor.h); where the program ends that process, we end them. Not together with
  /// extra_input.
  bool kept = false;
};

/// How an exchange ended; kEnd also when a kept program has lost its keeper.
enum class Exchanged { kLine, kEnd, kTimeout, kTooLong };

struct ExchangeRequest {
  std::string_view input;
  bool close_input = false;  // and then wait for the end of the output; else for one line
  size_t max_output = size_t{64} << 20;
  Deadline deadline;
  bool heeds_stop = true;  // else an interrupt does not end the exchange
};

class ChildProcess {
 public:
  /// An Error (kBadConfiguration) when the program cannot be started.
  explicit ChildProcess(const SpawnRequest& request);
  /// Closes its input, gives it a moment to end by itself, and kills what is left of its group.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Writes the input and reads at the same time, so that neither side can block the other for good. Never raises
  /// SIGPIPE. What was read is in output() and errors(). Interrupted when someone asks to stop meanwhile.
  Exchanged exchange(const ExchangeRequest& request);
  std::string& output() { return output_; }
  const std::string& errors() const { return errors_; }

  /// Kills the whole group, or all that is kept, and waits until whoever held its output is gone, too.
  void kill();
  /// "exit code 3", "signal 11 (Segmentation fault)"; empty while it runs.
  std::string ending() const;

 private:
  bool has_ended() const;

  pid_t pid_ = -1;
  FileHandle keeper_;  // closed, it ends all that is kept
  FileHandle input_, output_pipe_, error_pipe_;
  std::string output_, errors_;
  bool reaped_ = false;
};

}  // namespace keel
