#include "keel/core/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "keel/core/error.h"

namespace keel {
namespace {

constexpr unsigned kGracePeriod = 3;  // seconds

volatile sig_atomic_t stop_signal = 0;  // the first signal that requested a stop; 0: none
volatile sig_atomic_t command_begun = 0, saving = 0, resumable = 0;
int stop_event = -1;  // becomes readable at a stop request; never read, so that all polling threads wake

// The handlers call only async-signal-safe functions: poll(), write(), open(), dup2(), alarm() and raise().

/// Returns whether a write would not block.
bool is_writable(int descriptor) {
  pollfd end{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&end, 1, /*timeout=*/0) == 1;
}

template <size_t size>
void write_to_stderr(const char (&message)[size]) {
  if (!is_writable(STDERR_FILENO)) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message, size - 1);
}

/// Redirects blocked output (a halted terminal, a stuck reader) to /dev/null. A write that is already blocked is
/// restarted when the handler returns, and goes there as well.
void discard_blocked_output() {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    if (is_writable(descriptor)) continue;
    const int null_device = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null_device, descriptor);
    close(null_device);
  }
}

/// Ends the program by a signal. If its handler is running, the signal is delivered when the handler returns.
void end_by_signal(int number) {
  signal(number, SIG_DFL);
  raise(number);
}

/// The grace period is over. Ends the program, unless it is saving a run: then only blocked output is discarded.
void handle_alarm(int) {
  if (stop_signal == 0) return;  // an alarm from elsewhere
  if (saving == 0) end_interrupted();
  discard_blocked_output();
  alarm(1);
}

void request_stop(int number) {
  if (stop_signal != 0) {
    if (number == SIGXCPU) return;  // the kernel sends it every second
    if (resumable != 0) _exit(static_cast<int>(ExitCode::kInterrupted));
    return end_by_signal(number);  // nothing is saved
  }
  stop_signal = number;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_event, &one, sizeof(one));
  alarm(kGracePeriod);
  write_to_stderr("\nstopping; send the signal again to stop at once\n");
}

}  // namespace

void install_signal_handlers() {
  stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action = {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART;
  sigset_t handled;  // the parent process may have blocked them
  sigemptyset(&handled);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU, SIGALRM}) sigaddset(&handled, signal);
  sigprocmask(SIG_UNBLOCK, &handled, nullptr);
  signal(SIGCHLD, SIG_DFL);  // if it were ignored, child processes would have no exit status
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGXCPU}) sigaction(signal, &action, nullptr);
  if (struct sigaction before = {}; sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
  action.sa_handler = handle_alarm;
  sigaction(SIGALRM, &action, nullptr);
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

void exit_on_closed_pipe() { signal(SIGPIPE, SIG_DFL); }

bool is_closed_pipe(int descriptor) {
  pollfd end{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&end, 1, /*timeout=*/0) == 1 && (end.revents & POLLERR) != 0;
}

void begin_command() { command_begun = 1; }

void wait_for_saving() { saving = 1; }

void set_resumable() { resumable = 1; }

bool stop_requested() { return stop_signal != 0; }

void throw_if_stopped() {
  if (stop_requested()) throw Interrupted();
}

int poll_unless_stopped(std::span<pollfd> files, int milliseconds) {
  std::vector<pollfd> all(files.begin(), files.end());
  all.push_back({.fd = stop_event, .events = POLLIN, .revents = 0});
  const int ready = poll(all.data(), all.size(), milliseconds);
  throw_if_stopped();
  std::copy_n(all.begin(), files.size(), files.begin());
  return ready;
}

void end_interrupted() {
  if (resumable != 0) {
    write_to_stderr("keel: stopped before the run continued; it can still be resumed from its last checkpoint\n");
  } else if (command_begun != 0) {
    write_to_stderr("keel: stopped before it was done\n");
  } else {
    write_to_stderr("keel: stopped before it began; nothing was written. Start it again with the same command\n");
    end_by_signal(stop_signal);
  }
  _exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace keel
