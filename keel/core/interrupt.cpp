#include "keel/core/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "keel/core/error.h"

namespace keel {
namespace {

volatile sig_atomic_t requested = 0;

void request_stop(int) {
  if (requested != 0) _exit(static_cast<int>(ExitCode::kInterrupted));
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

bool stop_requested() { return requested != 0; }

}  // namespace keel
