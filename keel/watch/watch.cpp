#include "keel/watch/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "keel/core/error.h"
#include "keel/core/interrupt.h"
#include "keel/core/steady_clock.h"
#include "keel/reward/programs/orphans.h"
#include "keel/watch/http_server.h"
#include "keel/watch/site.h"
#include "keel/watch/watched_runs.h"

namespace keel {
namespace {

constexpr int kRefreshMilliseconds = 1000;
constexpr int kRefreshTimeFactor = 20;     // the interval is at least this many refresh times
constexpr double kPollTimeoutSeconds = 3;  // after which a page without a poll counts as closed
constexpr double kLingerSeconds = 3;       // for which the child serves an open page after the run's end

/// Refreshes the runs. Returns the milliseconds until the next refresh, which grow with its cost (10,000 runs).
int refresh(WatchedRuns& runs, std::vector<std::string>& changes) {
  const double begin = steady_seconds();
  changes = runs.refresh();
  return std::max(kRefreshMilliseconds, static_cast<int>((steady_seconds() - begin) * 1000 * kRefreshTimeFactor));
}

/// Main function of the child process: refreshes and serves until the run's process closes its end of the pipe.
void serve_in_background(Listener listener, const std::filesystem::path& run, int parent_pipe) {
  WatchedRuns runs = WatchedRuns::for_new_run(run);
  runs.refresh();
  Site site(runs);
  const HttpServer server(std::move(listener), [&](const PageRequest& request) { return site.respond(request); });
  std::vector<std::string> changes;
  pollfd end{.fd = parent_pipe, .events = 0, .revents = 0};
  for (bool is_alive = true; is_alive;) {
    const int ready = poll(&end, 1, refresh(runs, changes));
    is_alive = ready == 0 || (ready < 0 && errno == EINTR);
  }
  const double ended = steady_seconds();
  while (steady_seconds() < ended + kLingerSeconds && steady_seconds() < site.last_poll() + kPollTimeoutSeconds) {
    runs.refresh();
    poll(nullptr, 0, 200);
  }
}

/// Detaches a forked process from its parent's signals, terminal and output.
void detach_from_parent() {
  for (const int number : {SIGINT, SIGHUP, SIGUSR1, SIGXCPU, SIGALRM}) signal(number, SIG_IGN);
  signal(SIGTERM, SIG_DFL);
  setpgid(0, 0);
  const FileHandle null_device(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null_device.get(), descriptor);
  [[maybe_unused]] const int niceness = nice(10);  // the run has priority
}

}  // namespace

void watch(const std::vector<std::string>& folders, const ListenAddress& address, Console& console) {
  require_server();
  WatchedRuns runs(folders);
  runs.refresh();
  Listener listener = open_listener(address);
  console.result(listener.address);
  Site site(runs);
  const HttpServer server(std::move(listener), [&](const PageRequest& request) { return site.respond(request); });
  try {
    for (std::vector<std::string> changes;;) {
      const int pause = refresh(runs, changes);
      for (const std::string& change : changes) console.line(change);
      poll_unless_stopped({}, pause);
    }
  } catch (const Interrupted&) {  // the normal end
  }
}

BackgroundWatch::BackgroundWatch(const std::filesystem::path& run) {
  require_server();
  Listener listener = open_listener({});
  address_ = listener.address;
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) fail(ExitCode::kHealthGuard, "cannot create a pipe: ", std::strerror(errno));
  const FileHandle child_end(pipe_ends[0]);
  alive_ = FileHandle(pipe_ends[1]);
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);  // until the child has reset the signal handlers
  process_ = start_child(fork);
  if (process_ == 0) {
    detach_from_parent();
    sigprocmask(SIG_SETMASK, &before, nullptr);
    alive_.close();
    try {
      serve_in_background(std::move(listener), run, child_end.get());
    } catch (const std::exception&) {  // it has no output; the page shows that the server has ended
    }
    _exit(0);
  }
  const int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (process_ < 0) fail(ExitCode::kHealthGuard, "cannot create a process for --watch: ", std::strerror(error));
}

BackgroundWatch::~BackgroundWatch() {
  alive_.close();
  const double kill_deadline = steady_seconds() + kLingerSeconds + 2;
  const auto has_ended = [this] {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT | WNOHANG) != 0 || info.si_pid != 0;
  };
  while (!has_ended()) {
    if (steady_seconds() > kill_deadline) kill(process_, SIGKILL);
    poll(nullptr, 0, 20);
  }
  reap_child(process_);
}

}  // namespace keel
