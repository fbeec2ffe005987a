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

constexpr unsigned kPatience = 3;  // seconds

volatile sig_atomic_t requested = 0;  // the signal that asked to stop
volatile sig_atomic_t command_begun = 0, saving = 0, resumable = 0;
int stop_event = -1;  // can be read from once someone asked to stop, by any number of threads: nobody does read

// poll(), write(), open(), dup2(), alarm() and raise() are among the few calls that a signal handler may make.

/// Whether something can be written there without waiting for a reader.
bool has_room(int descriptor) {
  pollfd end{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&end, 1, /*timeout=*/0) == 1;
}

template <size_t size>
void say(const char (&note)[size]) {
  if (!has_room(STDERR_FILENO)) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, note, size - 1);
}

/// A terminal that was halted, a reader that is stuck: a write to it would wait for ever. It goes to nobody from now
/// on, and so does one that waits already, for it is begun again when the handler returns.
void give_up_on_readers() {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    if (has_room(descriptor)) continue;
    const int nobody = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nobody, descriptor);
    close(nobody);
  }
}

/// Inside the handler of that very signal it comes when the handler returns.
void die_of(int number) {
  signal(number, SIG_DFL);
  raise(number);
}

/// The patience is at its end: that with a program that does not stop by itself, or with readers, whom a run that has
/// something to save waits for no longer.
void give_up(int) {
  if (requested == 0) return;  // somebody else's alarm
  if (saving == 0) end_interrupted();
  give_up_on_readers();
  alarm(1);
}

void request_stop(int number) {
  if (requested != 0) {
    if (number == SIGXCPU) return;  // the kernel sends it every second
    if (resumable != 0) _exit(static_cast<int>(ExitCode::kInterrupted));
    return die_of(number);  // nothing is saved
  }
  requested = number;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_event, &one, sizeof(one));
  alarm(kPatience);
  say("\nstopping; once more to stop at once\n");
}

}  // namespace

void install_signal_handlers() {
  stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action = {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART;
  sigset_t handled;  // by whoever started the program they may be blocked
  sigemptyset(&handled);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU, SIGALRM}) sigaddset(&handled, signal);
  sigprocmask(SIG_UNBLOCK, &handled, nullptr);
  signal(SIGCHLD, SIG_DFL);  // ignored, programs would end without telling how
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGXCPU}) sigaction(signal, &action, nullptr);
  if (struct sigaction before = {}; sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
  action.sa_handler = give_up;
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

bool stop_requested() { return requested != 0; }

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
    say("keel: stopped before the run went on; it can be resumed from its last checkpoint as before\n");
  } else if (command_begun != 0) {
    say("keel: stopped before it was done\n");
  } else {
    say("keel: stopped before it began; nothing was written. Start it again with the same command\n");
    die_of(requested);
  }
  _exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace keel
