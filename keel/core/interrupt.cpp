#include "keel/core/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "keel/core/error.h"

namespace keel {
namespace {

volatile sig_atomic_t requested = 0, resumable = 0;

void request_stop(int number) {
  if (requested != 0 && resumable != 0) _exit(static_cast<int>(ExitCode::kInterrupted));
  if (requested != 0) {  // nothing is saved: say so by dying of the signal, which comes when this returns
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  requested = 1;
  // write() is among the few calls that a signal handler may make.
  constexpr char note[] = "\nstopping after this step; once more to stop at once\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, note, sizeof(note) - 1);
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

void set_resumable() { resumable = 1; }

bool stop_requested() { return requested != 0; }

}  // namespace keel
