#include "keel/core/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "keel/core/error.h"

namespace keel {
namespace {

constexpr unsigned kPatience = 3;  // seconds

volatile sig_atomic_t requested = 0, saving = 0, resumable = 0;

// write() and alarm() are among the few calls that a signal handler may make.
template <size_t size>
void say(const char (&note)[size]) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, note, size - 1);
}

void give_up(int) {
  say("keel: stopped before it was done\n");
  _exit(static_cast<int>(ExitCode::kInterrupted));
}

void request_stop(int number) {
  if (requested != 0 && resumable != 0) _exit(static_cast<int>(ExitCode::kInterrupted));
  if (requested != 0) {  // nothing is saved: say so by dying of the signal, which comes when this returns
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  requested = 1;
  if (saving != 0) return say("\nstopping after this step; once more to stop at once\n");
  say("\nstopping; once more to stop at once\n");
  alarm(kPatience);
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
  action.sa_handler = give_up;
  sigaction(SIGALRM, &action, nullptr);
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

void end_when_nobody_reads() { signal(SIGPIPE, SIG_DFL); }

bool nobody_reads(int descriptor) {
  pollfd end{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&end, 1, /*timeout=*/0) == 1 && (end.revents & POLLERR) != 0;
}

void wait_for_saving() {
  saving = 1;
  alarm(0);
}

void set_resumable() { resumable = 1; }

bool stop_requested() { return requested != 0; }

}  // namespace keel
